// Package notfound has a registered error whose text another package has as well.
package notfound

import (
	"errors"

	"github.com/fiber-go/fiber"
)

// Err is the error.
var Err = fiber.RegisterError(errors.New("not found"))
