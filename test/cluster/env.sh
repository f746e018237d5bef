# The settings that the scripts share; ". test/cluster/env.sh" sets a shell up with kubectl and KUBECONFIG.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CLUSTER_BIN=${CLUSTER_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/fiber-cluster/bin} # what build.sh makes
export CLUSTER_STATE=${CLUSTER_STATE:-/var/lib/fiber-cluster}                        # certificates, etcd, images, logs
state=$CLUSTER_STATE run=/run/fiber-cluster                                          # of a node; run is for sockets
node=node1 node_ip=10.244.0.1 pod_cidr=10.244.0.0/24 service_cidr=10.96.0.0/16 service_ip=10.96.0.1
registry=localhost:5000
pki=$CLUSTER_STATE/pki
export PATH=$CLUSTER_BIN:/usr/local/sbin:/usr/sbin:/sbin:$PATH
export KUBECONFIG=$CLUSTER_STATE/admin.kubeconfig
ctr() { command ctr -a "$run/containerd.sock" -n k8s.io "$@"; }

# running NAME prints the process id of what was started on the node under that name, if it still runs. After a restart of the
# machine the id may belong to another process.
running() {
	local pid
	pid=$(cat "$state/pid/$1" 2>/dev/null) && grep -qs -e "$1" "/proc/$pid/cmdline" && echo "$pid"
}
