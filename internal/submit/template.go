package submit

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Template reads the pod in YAML that pods are made from, "" for none. Its children take over from a master what it
// has got from there, and need not read it.
func Template(path string) (*corev1.Pod, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the pod template: %w", err)
	}
	pod := new(corev1.Pod)
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		return nil, fmt.Errorf("the pod template %s: %w", path, err)
	}
	return pod, nil
}
