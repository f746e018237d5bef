package kube

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Template reads a pod in YAML, from which pods are made; it returns nil if path is "". Its first container runs the
// program.
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
	if pod.Kind != "" && pod.Kind != "Pod" {
		return nil, fmt.Errorf("the pod template %s is a %s, but must be a Pod", path, pod.Kind)
	}
	return pod, nil
}
