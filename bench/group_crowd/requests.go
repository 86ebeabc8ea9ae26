package main

import "encoding/binary"

// The versions that today's clients speak, all flexible.
const (
	joinGroup, joinVersion      = 11, 9
	heartbeat, heartbeatVersion = 12, 4
	syncGroup, syncVersion      = 14, 5

	clientID  = "bench"
	topic     = "orders"
	epochTopic = "wide"
	idBytes   = len(clientID) + 1 + 36 // of every id that brokers hand out
	sessionMs = 1_200_000              // no session ends while others are measured
)

// What a consumer of one topic sends: version 0, the topic, no user data.
var subscription = append(append([]byte{0, 0, 0, 0, 0, 1, 0, byte(len(topic))}, topic...), 0xff, 0xff, 0xff, 0xff)

// What a leader gives it: partition 0.
var assignment = append(subscription[:len(subscription)-4:len(subscription)-4],
	0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)

type writer []byte

func (w *writer) int16(value int16) { *w = binary.BigEndian.AppendUint16(*w, uint16(value)) }
func (w *writer) int32(value int32) { *w = binary.BigEndian.AppendUint32(*w, uint32(value)) }
func (w *writer) length(value int)  { *w = binary.AppendUvarint(*w, uint64(value+1)) }
func (w *writer) tags()             { *w = append(*w, 0) }
func (w *writer) null()             { *w = append(*w, 0) }

func (w *writer) bytes(value []byte) {
	w.length(len(value))
	*w = append(*w, value...)
}

func (w *writer) text(value string) { w.bytes([]byte(value)) }

// begin leaves room for the size of the request and writes its header.
func (w *writer) begin(apiKey, version int16) {
	*w = append((*w)[:0], 0, 0, 0, 0)
	w.int16(apiKey)
	w.int16(version)
	w.int32(7)
	w.int16(int16(len(clientID)))
	*w = append(*w, clientID...)
	w.tags()
}

func (w *writer) end() []byte {
	w.tags()
	binary.BigEndian.PutUint32(*w, uint32(len(*w)-4))
	return *w
}

func (w *writer) join(groupID string, memberID []byte) []byte {
	w.begin(joinGroup, joinVersion)
	w.text(groupID)
	w.int32(sessionMs)
	w.int32(sessionMs) // to rebalance
	w.bytes(memberID)
	w.null() // instance id
	w.text("consumer")
	w.length(1)
	w.text("range")
	w.bytes(subscription)
	w.tags()
	w.null() // reason
	return w.end()
}

// sync asks for an assignment; the leader brings those of all.
func (w *writer) sync(groupID string, generation int32, memberID []byte, all []*member) []byte {
	w.begin(syncGroup, syncVersion)
	w.text(groupID)
	w.int32(generation)
	w.bytes(memberID)
	w.null() // instance id
	w.text("consumer")
	w.text("range")
	w.length(len(all))
	for _, each := range all {
		w.bytes(each.id)
		w.bytes(assignment)
		w.tags()
	}
	return w.end()
}

func (w *writer) heartbeat(groupID string, generation int32, memberID []byte) []byte {
	w.begin(heartbeat, heartbeatVersion)
	w.text(groupID)
	w.int32(generation)
	w.bytes(memberID)
	w.null() // instance id
	return w.end()
}
