package submit

import (
	"crypto/rand"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fiber-go/fiber/internal/container/pid1"
	"github.com/fiber-go/fiber/internal/kube"
)

// environment makes a pod's container m take the job's variables from a secret, since more people may look at pods than at
// secrets. It returns the secret, or nil if there are no variables. They follow those of the template, and override them.
func (j Job) environment(pod *corev1.Pod, m *corev1.Container) *corev1.Secret {
	if j.Joined {
		kube.Setenv(m, pid1.Key, pid1.Value)
	}
	if len(j.Env) == 0 {
		return nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   pod.Name + "-" + strings.ToLower(rand.Text()[:6]), // the secret of an earlier pod of that name may linger
			Labels: map[string]string{kube.LabelManaged: kube.Manager, LabelProgram: pod.Labels[LabelProgram]},
		},
		Data: map[string][]byte{}, Immutable: new(true),
	}
	for i, kv := range j.Env {
		name, value, _ := strings.Cut(kv, "=")
		key := name
		if len(validation.IsConfigMapKey(key)) > 0 {
			key = fmt.Sprintf("variable-%d", i)
		}
		secret.Data[key] = []byte(value)
		m.Env = append(m.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name}, Key: key}}})
	}
	return secret
}
