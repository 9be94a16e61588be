package ackgate

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// PublishBatch writes what has a value, and refuses a call about nothing.
func (g *fakeGateway) PublishBatch(_ context.Context, request *v1.PublishBatchRequest) (*v1.PublishBatchResponse, error) {
	if len(request.GetRecords()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no records")
	}
	response := &v1.PublishBatchResponse{}
	for i, record := range request.GetRecords() {
		result := &v1.PublishResult{Topic: record.GetTopic(), Partition: record.Partition}
		if record.Value == nil {
			result.Error, result.Detail = v1.PublishError_PUBLISH_ERROR_REFUSED, "no value"
		} else {
			result.Offset = proto.Int64(int64(i))
		}
		response.Results = append(response.Results, result)
	}
	return response, nil
}

func TestEachRecordOfABatchIsAnswered(t *testing.T) {
	gateway := newGateway(t)
	client, err := Dial(gateway.address, DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	partition := int32(3)
	written, err := client.PublishBatch(ctx, []Outgoing{
		{Topic: "orders", Value: []byte{}, Partition: &partition}, {Topic: "orders"},
	})
	if err != nil || len(written) != 2 {
		t.Fatalf("%v, %v", written, err)
	}
	if one := written[0]; one.Err != nil || one.Offset != 0 || one.Partition != 3 {
		t.Errorf("an empty value: %+v", one)
	}
	if one := written[1]; one.Err == nil || one.Offset != -1 {
		t.Errorf("null: %+v", one)
	}
	var e *Error
	if _, err := client.PublishBatch(ctx, nil); !errors.As(err, &e) || e.Code != codes.InvalidArgument {
		t.Errorf("%v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := client.PublishBatch(short, []Outgoing{{}}); !errors.As(err, &e) || e.Code != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}
