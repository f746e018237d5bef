#!/bin/sh
# A child that never says anything.
exec sleep 1000
