package kube

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// templateKey is the annotation with the template of a root's pod.
const templateKey = "fiber.template"

// Template reads a pod in YAML, from which pods are made; it returns nil if path is "". Its first container runs the
// program.
func Template(path string) (*corev1.Pod, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the pod template (FIBER_POD_TEMPLATE): %w", err)
	}
	pod := new(corev1.Pod)
	if err := yaml.UnmarshalStrict(text, pod); err != nil {
		return nil, fmt.Errorf("the pod template %s (FIBER_POD_TEMPLATE): %w", path, err)
	}
	if pod.Kind != "" && pod.Kind != "Pod" {
		return nil, fmt.Errorf("the pod template %s (FIBER_POD_TEMPLATE) is a %s, but must be a Pod", path, pod.Kind)
	}
	return pod, nil
}

// Template reads a template for pods in the client's namespace. If the cluster then refuses a pod, the error names the
// template.
func (c *Client) Template(path string) (*corev1.Pod, error) {
	pod, err := Template(path)
	if pod != nil && pod.Namespace != "" && pod.Namespace != c.Namespace {
		return nil, fmt.Errorf("the pod template %s (FIBER_POD_TEMPLATE) is for the namespace %s, but pods are made in %s: "+
			"leave metadata.namespace out, or set FIBER_KUBERNETES_NAMESPACE=%[2]s", path, pod.Namespace, c.Namespace)
	}
	c.template = path
	return pod, err
}

// PassOn has the pods that a root's pod starts be made from its template. The node selector comes from the root's pod, which
// may have more of it.
func PassOn(pod, template *corev1.Pod) {
	template = template.DeepCopy()
	template.Spec.NodeSelector = nil
	text, _ := yaml.Marshal(template) // never fails
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, templateKey, string(text))
}

// PassedOn returns the template that a root's pod passes on, nil for none.
func PassedOn(pod *corev1.Pod) (*corev1.Pod, error) {
	text := pod.Annotations[templateKey]
	if text == "" {
		return nil, nil
	}
	template := new(corev1.Pod)
	if err := yaml.Unmarshal([]byte(text), template); err != nil {
		return nil, fmt.Errorf("the pod template in the annotation %s of the pod %s: %w", templateKey, pod.Name, err)
	}
	return template, nil
}
