package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// parse parses a text into a field of a Config.
func parse(text string, field reflect.Value) (err error) {
	switch v := field.Addr().Interface().(type) {
	case *string:
		*v = text
	case *[]string:
		for item := range strings.SplitSeq(text, ",") {
			*v = append(*v, strings.TrimSpace(item))
		}
	case *Switch:
		*v, err = parseSwitch(text)
	case *ByteSize:
		*v, err = ParseByteSize(text)
	case *time.Duration:
		*v, err = time.ParseDuration(text)
	case *int:
		*v, err = strconv.Atoi(text)
	case *float64:
		*v, err = strconv.ParseFloat(text, 64)
	}
	return err
}

// format returns a field of a Config as a text that parse understands.
func format(field reflect.Value) string {
	if list, ok := field.Interface().([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(field.Interface())
}
