package kube_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

func TestClaims(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]kube.Claim{
		"data":           {Name: "data", Path: "/persistent"},
		"data:/x/../y/":  {Name: "data", Path: "/y"},
		"my.data:/x:ro":  {Name: "my.data", Path: "/x", ReadOnly: true},
		"d-1:/with spac": {Name: "d-1", Path: "/with spac"},
	} {
		got, err := kube.ParseClaims([]string{text})
		require.NoError(t, err, text)
		assert.Equal(t, []kube.Claim{want}, got, text)
	}
	for _, text := range []string{"", "Data", "data:", "data:x", "data:/", ":/x", "data:/x:rx", "a b"} {
		_, err := kube.ParseClaims([]string{text})
		require.ErrorContains(t, err, "is not a claim", text)
	}
}

// A claim's name may be longer than a volume's.
func TestLongClaims(t *testing.T) {
	t.Parallel()
	pod, m := kube.NewPod(nil)
	long := strings.Repeat("x", 100)
	kube.Mount(&pod.Spec, m, []kube.Claim{{Name: long + "1", Path: "/1"}, {Name: long + "2", Path: "/2"}, {Name: "a.b", Path: "/3"}, {Name: "a.b", Path: "/4"}})
	require.Len(t, pod.Spec.Volumes, 3)
	seen := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		assert.Regexp(t, `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, v.Name)
		seen[v.Name] = true
	}
	assert.Len(t, seen, 3)
	assert.Equal(t, []corev1.VolumeMount{{Name: "fiber-a-b", MountPath: "/3"}, {Name: "fiber-a-b", MountPath: "/4"}}, m.VolumeMounts[2:])
}
