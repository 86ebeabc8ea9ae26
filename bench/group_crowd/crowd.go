package main

import (
	"bytes"
	"encoding/binary"
	"log"
	"syscall"
	"time"
)

const (
	asking = iota // for an id
	joining
	syncing
	assigned
	beating
)

const (
	illegalGeneration   = 22
	rebalanceInProgress = 27
	memberIDRequired    = 79

	errorAt      = 13                                                  // size, correlation id, tags, throttle time
	generationAt = errorAt + 2                                         // of a join
	givenIDAt    = generationAt + 4 + len("\x00\x00\x01\x00") + 1      // of a refused one: no names, no leader
	leaderAt     = generationAt + 4 + len("\x09consumer\x06range") + 1 // of one that was let in

	atOnce    = 1024
	quietMs   = 5 // after that, members look whether they missed something
	patience  = 120 * time.Second
	recvBytes = 1 << 20
)

type member struct {
	fd         int
	doing      int
	id         []byte
	generation int32
	received   []byte // of an answer that is not complete
}

type group struct {
	id         string
	members    []*member
	generation int32
	before     int32         // the generation that is to be left
	assigned   map[int32]int // generation -> how many have their assignment
}

func newGroup(id string) *group { return &group{id: id, generation: -1} }

type crowd struct {
	connections []int
	polling     int
	request     writer
	buffer      []byte
}

func newCrowd(address syscall.Sockaddr, size int) *crowd {
	polling, err := syscall.EpollCreate1(0)
	check(err)
	c := &crowd{polling: polling, buffer: make([]byte, recvBytes)}
	for range size {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		check(err)
		check(syscall.Connect(fd, address))
		check(syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1))
		check(syscall.SetNonblock(fd, true))
		c.connections = append(c.connections, fd)
	}
	return c
}

// run lets so many new members join, until all members are assigned in one generation.
func (c *crowd) run(g *group, newcomers int) time.Duration {
	others := g.members
	for _, fd := range c.connections[len(others) : len(others)+newcomers] {
		g.members = append(g.members, &member{fd: fd, doing: asking, generation: -1})
	}
	byFd := map[int32]*member{}
	for _, each := range g.members {
		byFd[int32(each.fd)] = each
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(each.fd)}
		check(syscall.EpollCtl(c.polling, syscall.EPOLL_CTL_ADD, each.fd, &event))
	}
	g.before, g.assigned = g.generation, map[int32]int{}
	first := g.members[len(others):]
	last := first[len(first)-1]
	var events [atOnce]syscall.EpollEvent
	started := time.Now()
	for _, each := range first {
		c.send(each, c.request.join(g.id, nil))
	}
	for g.assigned[g.generation] < len(g.members) {
		count := c.poll(events[:], quietMs)
		for _, event := range events[:count] {
			c.receive(g, byFd[event.Fd])
		}
		switch {
		case len(others) > 0 && last.doing != asking:
			c.lookAround(g, others)
			others = nil
		case len(others) == 0 && count == 0:
			// Whoever has an assignment learns from its heartbeat that it must join again.
			c.lookAround(g, g.members)
			if time.Since(started) > patience {
				log.Fatalf("%s does not settle: %v", g.id, g.assigned)
			}
		}
	}
	took := time.Since(started)
	for _, each := range g.members {
		for each.doing == beating {
			for _, event := range events[:c.poll(events[:], 1000)] {
				c.receive(g, byFd[event.Fd])
			}
		}
	}
	for _, each := range g.members {
		check(syscall.EpollCtl(c.polling, syscall.EPOLL_CTL_DEL, each.fd, nil))
	}
	return took
}

func (c *crowd) poll(events []syscall.EpollEvent, ms int) int {
	for {
		count, err := syscall.EpollWait(c.polling, events, ms)
		if err != syscall.EINTR {
			check(err)
			return count
		}
	}
}

// send writes a request; a large one, of a leader, waits for room.
func (c *crowd) send(m *member, request []byte) {
	for len(request) > 0 {
		count, err := syscall.Write(m.fd, request)
		if err == syscall.EAGAIN {
			check(syscall.SetNonblock(m.fd, false))
			defer syscall.SetNonblock(m.fd, true)
			continue
		}
		check(err)
		request = request[count:]
	}
}

func (c *crowd) lookAround(g *group, members []*member) {
	for _, each := range members {
		if each.doing == assigned {
			each.doing = beating
			c.send(each, c.request.heartbeat(g.id, each.generation, each.id))
		}
	}
}

func (c *crowd) receive(g *group, m *member) {
	count, err := syscall.Read(m.fd, c.buffer)
	if err == syscall.EAGAIN {
		return
	}
	check(err)
	if count == 0 {
		log.Fatal("the broker closed the connection")
	}
	answer := c.buffer[:count]
	if len(m.received) > 0 || !isWhole(answer) {
		m.received = append(m.received, answer...)
		if !isWhole(m.received) {
			return
		}
		answer, m.received = m.received, nil
	}
	errorCode := binary.BigEndian.Uint16(answer[errorAt:])
	switch {
	case errorCode != 0:
		c.refused(g, m, answer, errorCode)
	case m.doing == joining:
		m.generation = int32(binary.BigEndian.Uint32(answer[generationAt:]))
		m.doing = syncing
		var all []*member
		if bytes.HasPrefix(answer[leaderAt:], m.id) {
			for _, each := range g.members {
				if each.id != nil {
					all = append(all, each)
				}
			}
		}
		c.send(m, c.request.sync(g.id, m.generation, m.id, all))
	case m.doing == syncing:
		m.doing = assigned
		g.generation = max(g.generation, m.generation)
		g.assigned[m.generation]++
	case m.doing == beating && m.generation <= g.before:
		c.send(m, c.request.heartbeat(g.id, m.generation, m.id)) // the newcomer has not come through yet
	case m.doing == beating:
		m.doing = assigned
	default:
		log.Fatalf("a join without an id was let in: %x", answer[:min(len(answer), 200)])
	}
}

func isWhole(answer []byte) bool {
	return len(answer) >= 4 && len(answer) == 4+int(binary.BigEndian.Uint32(answer))
}

func (c *crowd) refused(g *group, m *member, answer []byte, errorCode uint16) {
	switch {
	case m.doing == asking && errorCode == memberIDRequired:
		m.id = append([]byte(nil), answer[givenIDAt:givenIDAt+idBytes]...)
	case m.doing != asking && (errorCode == rebalanceInProgress || errorCode == illegalGeneration):
		if m.doing == beating && g.assigned[m.generation] > 0 {
			g.assigned[m.generation]--
		}
	default:
		log.Fatalf("%s: error %d while in state %d", m.id, errorCode, m.doing)
	}
	m.doing = joining
	c.send(m, c.request.join(g.id, m.id))
}
