//go:build !fiber_nodocker

package fiber

import _ "github.com/fiber-go/fiber/backend/docker"
