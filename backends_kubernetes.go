//go:build !fiber_nokubernetes

package fiber

import _ "github.com/fiber-go/fiber/backend/kubernetes"
