package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/names"
)

// secrets hold the environments of the pods, with the run's credentials and the
// user's own. Pods with the same environment share a secret.
type secrets struct {
	making lock.Lock
	made   map[string]bool // by name: true if the secret exists, false if it may exist
}

// secret returns the name of the secret with a job's environment, which it makes
// if necessary.
func (b *Backend) secret(ctx context.Context, c *cluster, spec backend.JobSpec) (string, error) {
	data := map[string][]byte{}
	env := slices.Clone(spec.Env)
	for _, kv := range env {
		key, value, _ := strings.Cut(kv, "=")
		if len(validation.IsConfigMapKey(key)) == 0 {
			data[key] = []byte(value)
		}
	}
	slices.Sort(env)
	sum := sha256.Sum256([]byte(strings.Join(env, "\x00")))
	name := "fiber-" + b.session + "-" + hex.EncodeToString(sum[:6])
	s := &b.secrets
	if err := s.making.Lock(ctx); err != nil {
		return "", err
	}
	if s.made[name] { // by another launch
		s.making.Unlock()
		return name, nil
	}
	s.made[name] = false
	// A cancelled request may still make the secret, for which other launches wait.
	err := b.launches.Do(ctx, func() error {
		defer s.making.Unlock()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), clusterTimeout)
		defer cancel()
		secret := &corev1.Secret{ObjectMeta: b.meta(c, name, spec), Data: data, Immutable: new(true)}
		_, err := kube.Make(within, c.Client, "secrets", name, secret)
		if err != nil {
			return fmt.Errorf("the secret with the environment of the pods: %w", err)
		}
		s.made[name] = true
		return nil
	}, func() {}) // Close removes it
	return name, err
}

// remove deletes the secrets. A secret whose making failed most likely never
// existed, so only failing to delete the others is an error. The next run removes
// the rest.
func (s *secrets) remove(ctx context.Context, c *cluster) error {
	if err := s.making.Lock(ctx); err != nil {
		return err
	}
	defer s.making.Unlock()
	var all error
	for name, there := range s.made {
		if err := c.Delete(ctx, "secrets", &metav1.ObjectMeta{Name: name}, 0); there {
			all = errors.Join(all, err)
		}
	}
	clear(s.made)
	return all
}

// meta returns the metadata of an object that is made for a job.
func (b *Backend) meta(c *cluster, name string, spec backend.JobSpec) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Labels: map[string]string{
		kube.LabelManaged: kube.Manager, kube.LabelRun: names.Label(spec.Run), labelSession: b.session, labelRoot: rootLabel(),
	}, Annotations: map[string]string{annotationRoot: rootName(c)}}
	if c.self != nil && c.self.Namespace == c.Namespace {
		m.OwnerReferences = kube.Owner(c.self)
	}
	return m
}
