//go:build unix

package kubernetes_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/test/fibertest"
)

// What others see of a run that they are no part of.

// A pod of the same namespace gets nothing from any port of the run, and the
// run does not mind it.
func TestPodsOfStrangersGetNothing(t *testing.T) {
	namespace := inPod(t, "fortress")
	log := func() string { return logsOf(namespace, "root") }
	fibertest.Eventually(t, 2*fibertest.Patience, func() bool { return strings.Contains(log(), "round 1 ") }, "it does not start")
	said, _, _ := strings.Cut(log(), "\n")
	addresses := strings.Fields(said)[1:]
	require.GreaterOrEqual(t, len(addresses), 4, "a home and a listener for children in each pod: %s", said)

	runPod(t, namespace, "stranger", "stranger", map[string]any{"automountServiceAccountToken": false},
		fibertest.ArgKey+"="+strings.Join(addresses, " "))
	endsWell(t, namespace, "stranger")
	got := strings.Split(strings.TrimSpace(logsOf(namespace, "stranger")), "\n")
	require.Len(t, got, len(addresses)*len(fibertest.StrangersTries))
	for _, line := range got {
		require.Regexp(t, ": nothing$", line)
	}
	rounds := strings.Count(log(), "round")
	fibertest.Eventually(t, fibertest.Patience, func() bool { return strings.Count(log(), "round") > rounds+1 }, "the run does not go on")
	require.Regexp(t, `\nround \d+ lost 0\n$`, log())
}

// Who may see pods and their logs, and no secrets, learns no credentials. The
// secrets go with the root.
func TestPodsShowNoCredentials(t *testing.T) {
	namespace := inPod(t, "family", "FIBER_LOG_LEVEL=debug")
	fibertest.Eventually(t, 2*fibertest.Patience, func() bool { return len(podsIn(t, namespace)) == 6 }, "6 pods")
	var secrets struct {
		Items []struct {
			Metadata struct{ OwnerReferences []struct{ Kind, Name string } }
			Data     map[string][]byte
		}
	}
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "get", "secrets", "-n", namespace, "-l", "app.kubernetes.io/managed-by=fiber", "-o", "json")), &secrets))
	require.NotEmpty(t, secrets.Items)
	seen := kubectl(t, "get", "pods,events", "-n", namespace, "-o", "yaml")
	kubectl(t, "wait", "pods", "--all", "-n", namespace, "--for=condition=Ready", "--timeout=30s") // their logs can be read then
	for _, p := range podsIn(t, namespace) {
		seen += kubectl(t, "logs", "-n", namespace, p.Metadata.Name, "--all-containers")
	}
	require.Contains(t, seen, "started", "there are logs")
	for _, s := range secrets.Items {
		require.Len(t, s.Metadata.OwnerReferences, 1)
		require.Equal(t, "Pod root", s.Metadata.OwnerReferences[0].Kind+" "+s.Metadata.OwnerReferences[0].Name)
		text := string(s.Data["FIBER_CREDENTIALS"])
		raw, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		require.Greater(t, len(raw), 15)
		for _, form := range []string{text, base64.StdEncoding.EncodeToString([]byte(text)), hex.EncodeToString(raw), string(raw)} {
			require.NotContains(t, seen, form)
		}
	}
}
