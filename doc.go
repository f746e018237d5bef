// Package fiber runs ordinary functions as processes.
package fiber
