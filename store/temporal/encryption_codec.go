package temporal

import (
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/casys-ai/pml/core"
)

// keyLabel is where a payload says with which key it was encrypted.
const keyLabel = "pml-key"

// codec encrypts payloads on their way to Temporal. It is a value, so that the SDK can tell two apart.
type codec struct {
	ring *ring
	// workflow is the id of the workflow that the payloads are of; empty: they are of an error.
	workflow string
	work     *work // nil: nothing is served with it
}

// WithSerializationContext implements converter.PayloadCodecWithSerializationContext.
func (c codec) WithSerializationContext(of converter.SerializationContext) converter.PayloadCodec {
	switch of := of.(type) {
	case converter.WorkflowSerializationContext:
		c.workflow = of.WorkflowID
	case converter.ActivitySerializationContext:
		c.workflow = of.WorkflowID
	}
	return c
}

// Encode implements converter.PayloadCodec. It never fails: the SDK would write some payloads in clear then.
func (c codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			panic(err) // a payload is a map and bytes; its keys are names of the SDK
		}
		label, sealed := c.ring.seal(c.workflow, plain)
		out[i] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encrypted), keyLabel: []byte(label)}, Data: sealed}
	}
	return out, nil
}

// Decode implements converter.PayloadCodec.
func (c codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		var err error
		if out[i], err = c.decode(p); err != nil {
			return nil, c.work.cannotRead(err)
		}
	}
	return out, nil
}

func (c codec) decode(p *commonpb.Payload) (*commonpb.Payload, error) {
	if string(p.GetMetadata()[converter.MetadataEncoding]) != encrypted {
		return nil, unencrypted(ofPayload, c.workflow)
	}
	plain, err := c.ring.open(ofPayload, c.workflow, string(p.GetMetadata()[keyLabel]), p.GetData())
	if err != nil {
		return nil, err
	}
	out := &commonpb.Payload{}
	if err := proto.Unmarshal(plain, out); err != nil {
		return nil, core.Errorf(core.CodeStoreFailed, "a payload of %s is none: %w", c.workflow, err)
	}
	return out, nil
}

// converters make of values and errors what Temporal keeps.
type converters struct {
	data     converter.DataConverter
	failures converter.FailureConverter
}

// newConverters are those of a pml of a format with a ring, or, where it is nil, those that keep everything in clear. w is the work that
// they are for, if they are for any.
func newConverters(r *ring, format int, w *work) converters {
	codecs := []converter.PayloadCodec{formats{format, w}}
	if r != nil {
		codecs = []converter.PayloadCodec{codec{ring: r, work: w}, formats{format, w}}
	}
	data := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), codecs...)
	// Errors are of no workflow: the SDK does not say of all of them which one they are of.
	return converters{data, temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: data, EncodeCommonAttributes: r != nil})}
}

// of converts what one workflow has.
func (c converters) of(namespace, workflow string) converter.DataConverter {
	return converter.WithDataConverterSerializationContext(c.data, converter.WorkflowSerializationContext{Namespace: namespace, WorkflowID: workflow})
}

// reads is the error of a payload that was not written as this ring, or, where it is nil, as nobody with a key writes it.
func (r *ring) reads(p *commonpb.Payload, workflow string) error {
	is := string(p.GetMetadata()[converter.MetadataEncoding]) == encrypted
	switch {
	case r == nil && is:
		return r.missing(string(p.GetMetadata()[keyLabel]))
	case r == nil:
		return nil
	case !is:
		return core.Errorf(core.CodeStoreKey, "the workflow %s was begun without keys, and what it and the runs keep is in clear; leave out the keys, or begin another installation (another name), where all is encrypted", workflow)
	}
	_, err := codec{ring: r, workflow: workflow}.decode(p)
	return err
}
