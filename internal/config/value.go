package config

import (
	"errors"
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
		*v = parseList(text)
	case *Switch:
		*v, err = parseSwitch(text)
	case *ByteSize:
		*v, err = ParseByteSize(text)
	case *time.Duration:
		*v, err = parseDuration(text)
	case *int:
		if *v, err = strconv.Atoi(text); err != nil {
			return errors.New("is not a whole number")
		}
	case *float64:
		if *v, err = strconv.ParseFloat(text, 64); err != nil {
			return errors.New("is not a number")
		}
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

// parseList parses items separated by commas.
func parseList(text string) []string {
	list := strings.Split(text, ",")
	for i, item := range list {
		list[i] = strings.TrimSpace(item)
	}
	return list
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := time.ParseDuration(text + "s"); err == nil && strings.LastIndexAny(text, "0123456789") == len(text)-1 {
		return 0, fmt.Errorf("has no unit, write %q", text+"s")
	}
	return 0, errors.New("is not a duration")
}
