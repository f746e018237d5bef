package submit

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

// exit returns the exit code of a program that has ended, and words to report about it, "" for none.
func exit(pod *corev1.Pod, s kube.State) (code int, words string) {
	t := s.Ended
	words = s.Note
	if t.Reason == "OOMKilled" {
		words = "it has used more memory than it may (OOMKilled)"
		if limit, ok := kube.Main(pod).Resources.Limits[corev1.ResourceMemory]; ok {
			words = fmt.Sprintf("it has used more than its %s of memory (OOMKilled)", Amount(limit.Value()))
		}
	}
	code = int(t.ExitCode)
	if t.Signal != 0 && code == 0 {
		code = 128 + int(t.Signal)
	}
	return code, words
}

// startCode returns the exit code of a program that could not be started, as in a shell.
func startCode(message string) int {
	if strings.Contains(message, "not found") || strings.Contains(message, "no such file") {
		return 127
	}
	return 126
}
