#!/bin/sh
# A child that never says anything but who it is.
echo $$ >"$TEST_PEER"
exec sleep 1000
