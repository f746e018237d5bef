#!/usr/bin/env bash
# Builds the one binary that holds etcd, the control plane, kubelet, kube-proxy and kubectl. That takes about six minutes
# on two CPUs the first time, and seconds afterwards.
set -euo pipefail
. "$(dirname "$0")/env.sh"
version=v1.34.4
flags="-s -w -X k8s.io/component-base/version.gitVersion=$version"
flags+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34"
flags+=" -X k8s.io/client-go/pkg/version.gitVersion=$version"
mkdir -p "$CLUSTER_BIN"
cd "$here"
CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$CLUSTER_BIN/bundle" .
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$CLUSTER_BIN/pause" ./pause
for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
	ln -sf bundle "$CLUSTER_BIN/$name"
done
