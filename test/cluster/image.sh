#!/usr/bin/env bash
# image.sh BINARY NAME COMMAND... writes an image of one static program, which all commands lead to, to stdout, in the
# format of "ctr images import".
set -euo pipefail
binary=$1 name=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/root"
install -m 755 "$binary" "$dir/root/program"
for command in "$@"; do
	install -d "$dir/root/bin"
	ln -s /program "$dir/root/bin/$command"
done
tar -C "$dir/root" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf "$dir/layer.tar" .
digest=$(sha256sum "$dir/layer.tar" | cut -d' ' -f1)
cat >"$dir/config.json" <<J
{"architecture": "$(go env GOARCH)", "os": "linux", "config": {"Entrypoint": ["/program"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]}}
J
echo '[{"Config": "config.json", "RepoTags": ["'"$name"'"], "Layers": ["layer.tar"]}]' >"$dir/manifest.json"
tar -C "$dir" -cf - manifest.json config.json layer.tar
