package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"syscall"
	"time"
)

// Members of the consumer protocol: each sends its next heartbeat when it has something to acknowledge, and
// in rounds otherwise, until all are at one epoch and every partition of the topic is with one of them.

const (
	consumerHeartbeat, consumerHeartbeatVersion = 68, 1
	roundMs                                     = 20
	fencedMemberEpoch                           = 110
)

type epochMember struct {
	fd        int
	id        []byte
	epoch     int32
	topicID   []byte
	owned     []int32
	isAsking  bool
	hasNews   bool
	nextRound time.Time
	received  []byte
}

type epochGroup struct {
	id      string
	members []*epochMember
}

// isStable looks at shares, too: before the newcomers have a target, others have all of it at one epoch.
func (g *epochGroup) isStable(partitions int) bool {
	count, highest := 0, int32(0)
	for _, each := range g.members {
		highest = max(highest, each.epoch)
		count += len(each.owned)
	}
	for _, each := range g.members {
		few := partitions / len(g.members)
		if each.epoch != highest || each.hasNews || len(each.owned) < few || len(each.owned) > few+1 {
			return false
		}
	}
	return count == partitions
}

// gather lets so many newcomers join.
func (c *crowd) gather(g *epochGroup, newcomers, partitions int) time.Duration {
	for _, fd := range c.connections[len(g.members) : len(g.members)+newcomers] {
		id := fmt.Appendf(nil, "%s-member-%06d", g.id, len(g.members)) // all as long: so are the answers
		g.members = append(g.members, &epochMember{fd: fd, id: id})
	}
	byFd := map[int32]*epochMember{}
	for _, each := range g.members {
		byFd[int32(each.fd)] = each
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(each.fd)}
		check(syscall.EpollCtl(c.polling, syscall.EPOLL_CTL_ADD, each.fd, &event))
	}
	var events [atOnce]syscall.EpollEvent
	started := time.Now()
	for _, each := range g.members[len(g.members)-newcomers:] {
		c.beat(g, each)
	}
	for !g.isStable(partitions) {
		count := c.poll(events[:], quietMs)
		for _, event := range events[:count] {
			c.heard(g, byFd[event.Fd])
		}
		now := time.Now()
		for _, each := range g.members {
			if !each.isAsking && now.After(each.nextRound) {
				c.beat(g, each)
			}
		}
		if now.Sub(started) > patience {
			log.Fatalf("%s does not settle", g.id)
		}
	}
	took := time.Since(started)
	for _, each := range g.members {
		for each.isAsking {
			for _, event := range events[:c.poll(events[:], 1000)] {
				c.heard(g, byFd[event.Fd])
			}
		}
	}
	for _, each := range g.members {
		check(syscall.EpollCtl(c.polling, syscall.EPOLL_CTL_DEL, each.fd, nil))
	}
	return took
}

func (c *crowd) beat(g *epochGroup, m *epochMember) {
	m.isAsking = true
	m.nextRound = time.Now().Add(roundMs * time.Millisecond)
	w := &c.request
	w.begin(consumerHeartbeat, consumerHeartbeatVersion)
	w.text(g.id)
	w.bytes(m.id)
	w.int32(m.epoch)
	w.null() // instance id
	w.null() // rack
	if m.epoch == 0 {
		w.int32(sessionMs)
		w.length(1)
		w.text(epochTopic)
	} else {
		w.int32(-1)
		w.null()
	}
	w.null() // regular expression
	w.null() // assignor
	switch {
	case m.epoch == 0:
		w.length(0)
	case !m.hasNews:
		w.null()
	case len(m.owned) == 0:
		w.length(0)
	default:
		w.length(1)
		*w = append(*w, m.topicID...)
		w.length(len(m.owned))
		for _, each := range m.owned {
			w.int32(each)
		}
		w.tags()
	}
	m.hasNews = false
	c.send(&member{fd: m.fd}, w.end())
}

func (c *crowd) heard(g *epochGroup, m *epochMember) {
	count, err := syscall.Read(m.fd, c.buffer)
	if err == syscall.EAGAIN {
		return
	}
	check(err)
	if count == 0 {
		log.Fatal("the broker closed the connection")
	}
	m.received = append(m.received, c.buffer[:count]...)
	if !isWhole(m.received) {
		return
	}
	answer := m.received
	m.received, m.isAsking = nil, false
	switch errorCode := binary.BigEndian.Uint16(answer[errorAt:]); errorCode {
	case 0:
	case fencedMemberEpoch:
		m.epoch, m.owned = 0, nil
		return
	default:
		log.Fatalf("a heartbeat of %s: error %d", m.id, errorCode)
	}
	at := errorAt + 2
	_, at = sized(answer, at) // message
	_, at = sized(answer, at) // member id
	m.epoch = int32(binary.BigEndian.Uint32(answer[at:]))
	at += 8 // and the interval
	if int8(answer[at]) < 0 {
		return
	}
	topics, at := length(answer, at+1)
	var owned []int32
	for range topics {
		m.topicID = append([]byte(nil), answer[at:at+16]...)
		var numbers int
		numbers, at = length(answer, at+16)
		for range numbers {
			owned = append(owned, int32(binary.BigEndian.Uint32(answer[at:])))
			at += 4
		}
		at++ // tags
	}
	m.owned, m.hasNews = owned, true
	c.beat(g, m)
}

func length(data []byte, at int) (int, int) {
	value, size := binary.Uvarint(data[at:])
	return int(value) - 1, at + size
}

func sized(data []byte, at int) ([]byte, int) {
	size, at := length(data, at)
	if size < 0 {
		return nil, at
	}
	return data[at : at+size], at + size
}
