package submit

import (
	"crypto/rand"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/container/pid1"
	"github.com/fiber-go/fiber/internal/kube"
)

// environment makes a pod's container m take the job's variables from a secret, since more people may look at pods than at
// secrets. It returns the secret, or nil if there are no variables. They follow those of the template, and override them.
func (j Job) environment(pod *corev1.Pod, m *corev1.Container) *corev1.Secret {
	if j.Joined {
		for key, value := range pid1.Environment() {
			kube.Setenv(m, key, value)
		}
	}
	if len(j.Env) == 0 {
		return nil
	}
	yes := true
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   pod.Name + "-" + strings.ToLower(rand.Text()[:6]), // the secret of an earlier pod of that name may linger
			Labels: map[string]string{kube.LabelManaged: kube.Manager, LabelProgram: pod.Labels[LabelProgram]},
		},
		Data: map[string][]byte{}, Immutable: &yes,
	}
	for i, kv := range j.Env {
		name, value, _ := strings.Cut(kv, "=")
		key := name
		if !kube.IsKey(key) {
			key = fmt.Sprintf("variable-%d", i)
		}
		secret.Data[key] = []byte(value)
		m.Env = append(m.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name}, Key: key}}})
	}
	return secret
}

// missing reports whether a pod waits for its secret, because its node looked before the secret was there. The node looks
// again.
func missing(secret, reason string) bool {
	return secret != "" && strings.Contains(reason, fmt.Sprintf("secret %q not found", secret))
}
