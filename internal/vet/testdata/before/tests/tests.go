// Package tests is tested.
package tests
