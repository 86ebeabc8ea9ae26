// Members of consumer groups, each on a connection of its own, as bytes on plain sockets: no client library in
// the way, and one thread, so that as much as possible of the machine is left for the broker.
//
//	group_crowd HOST PORT CONNECTIONS
//
// It opens the connections, prints "ready", and then obeys the lines that it reads:
//
//	settle GROUP SIZE    so many members join a new group, all at once
//	one_more GROUP       another one joins; the others notice by heartbeats, which they send at once
//	gather GROUP N P     so many members of the consumer protocol join, for P partitions; later ones add to them
//
// and answers each with a line, when all members are assigned: nanoseconds, generation, ids of the members.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: group_crowd HOST PORT CONNECTIONS")
	}
	address := syscall.SockaddrInet4{Port: number(os.Args[2])}
	copy(address.Addr[:], net.ParseIP(os.Args[1]).To4())
	crowd := newCrowd(&address, number(os.Args[3]))
	groups, epochGroups := map[string]*group{}, map[string]*epochGroup{}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		name := words[1]
		var took time.Duration
		switch words[0] {
		case "gather":
			if epochGroups[name] == nil {
				epochGroups[name] = &epochGroup{id: name}
			}
			took = crowd.gather(epochGroups[name], number(words[2]), number(words[3]))
			answer := []string{strconv.FormatInt(took.Nanoseconds(), 10)}
			answer = append(answer, strconv.Itoa(int(epochGroups[name].members[0].epoch)))
			for _, member := range epochGroups[name].members {
				answer = append(answer, string(member.id))
			}
			fmt.Println(strings.Join(answer, " "))
			continue
		case "settle":
			groups[name] = newGroup(name)
			took = crowd.run(groups[name], number(words[2]))
		case "one_more":
			took = crowd.run(groups[name], 1)
		default:
			log.Fatalf("unknown: %s", words[0])
		}
		answer := []string{strconv.FormatInt(took.Nanoseconds(), 10), strconv.Itoa(int(groups[name].generation))}
		for _, member := range groups[name].members {
			answer = append(answer, string(member.id))
		}
		fmt.Println(strings.Join(answer, " "))
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
