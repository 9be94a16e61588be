package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ackgate.dev/ackgate"
)

// instruction is the header that says what to do with a record.
const instruction = "conformance-do"

// handle does what the record says.
func handle(ctx context.Context, d *ackgate.Delivery) error {
	value, _ := d.Header(instruction)
	words := strings.Split(string(value), ":")
	switch words[0] {
	case "", "ack":
		return nil
	case "reject":
		return ackgate.Reject(strings.Join(words[1:], ":"), "as the record says")
	case "fail":
		if len(words) != 3 {
			return unknown(value)
		}
		times, err := strconv.ParseUint(words[1], 10, 32)
		retry, err2 := strconv.ParseUint(words[2], 10, 32)
		if errors.Join(err, err2) != nil {
			return unknown(value)
		}
		if uint64(d.Attempt) <= times {
			return ackgate.RetryAfter(time.Duration(retry)*time.Millisecond, errors.New("not this time"))
		}
		return nil
	case "work":
		ms, err := strconv.ParseUint(strings.Join(words[1:], ":"), 10, 32)
		if err != nil {
			return unknown(value)
		}
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
			return nil
		case <-ctx.Done():
			return ackgate.ErrRelease
		}
	case "raise":
		if d.Attempt <= 1 {
			panic("as the record says")
		}
		return nil
	default:
		return unknown(value)
	}
}

func unknown(value []byte) error {
	return ackgate.Reject("unknown-instruction", fmt.Sprintf("%q", value))
}
