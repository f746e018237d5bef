#!/usr/bin/env bash
# with.sh COMMAND... runs a command that tests on a cluster: the one of FIBER_TEST_KUBECONFIG, or else one that up.sh
# brings up and that stays up.
set -euo pipefail
. "$(dirname "$0")/env.sh"
if [ -z "${FIBER_TEST_KUBECONFIG:-}" ]; then
	"$here/packages.sh"
	"$here/build.sh"
	"$here/up.sh"
	export FIBER_TEST_KUBECONFIG=$KUBECONFIG FIBER_TEST_HOST=$node_ip FIBER_TEST_REGISTRY=$registry
else
	unset CLUSTER_STATE
fi
export KUBECONFIG=$FIBER_TEST_KUBECONFIG
exec "$@"
