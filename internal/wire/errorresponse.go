package wire

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// All answers of kmsg call an error code ErrorCode and its text ErrorMessage. They are rare enough to be found by name.

// ErrorResponse returns the answer to q that says an error and nothing else. All APIs that are served here have a place
// for it at the top, but for Metadata below 13: there it goes to each topic that is asked for, and nowhere
// if these are all, as in Kafka. message is sent where there is a place for it.
func ErrorResponse(q kmsg.Request, code int16, message string) kmsg.Response {
	r := q.ResponseKind()
	if r, ok := r.(*kmsg.MetadataResponse); ok {
		for _, t := range q.(*kmsg.MetadataRequest).Topics {
			failed := kmsg.NewMetadataResponseTopic()
			failed.Topic, failed.TopicID, failed.ErrorCode = t.Topic, t.TopicID, code
			r.Topics = append(r.Topics, failed)
		}
	}
	top := reflect.ValueOf(r).Elem()
	if field := top.FieldByName("ErrorCode"); field.IsValid() {
		field.SetInt(int64(code))
	}
	if field := top.FieldByName("ErrorMessage"); field.IsValid() {
		field.Set(reflect.ValueOf(&message))
	}
	return r
}

// ErrorCode returns the error code of an answer: the one at its top, or else the first one in it. 0: there is none.
func ErrorCode(r kmsg.Response) int16 { return findErrorCode(reflect.ValueOf(r).Elem()) }

func findErrorCode(v reflect.Value) int16 {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return 0
		}
		for i := range v.Len() {
			if code := findErrorCode(v.Index(i)); code != 0 {
				return code
			}
		}
	case reflect.Struct:
		if field := v.FieldByName("ErrorCode"); field.IsValid() && field.Int() != 0 {
			return int16(field.Int())
		}
		for i := range v.NumField() {
			if code := findErrorCode(v.Field(i)); code != 0 {
				return code
			}
		}
	}
	return 0
}
