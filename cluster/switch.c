/* An Ethernet switch in userspace, for kernels without sch_netem: every frame arrives a fixed time
 * after it was sent and after it has passed its sender's and its receiver's port at a given rate.
 *
 *   switch LATENCY_US RATE_MBIT PORT...          (rate 0: unlimited)
 *
 * The file that LATENCY_FILE names, once it is there, has another latency in microseconds; it is read
 * again ten times a second while there is traffic.
 *
 * Ports are network interfaces (one end of a veth each) of the network namespace it is started in.
 * The last two bytes of a station's address are the number of its port, counted from 0, so that
 * nothing has to be learned; all other addresses go to every port. A frame may be a large segment
 * that the receiving kernel cuts (PACKET_VNET_HDR): it is passed on unchanged. Nothing is dropped
 * as long as no port has more than MOST_WAITING_BYTES before it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_PORTS = 1024,
    HEADER_BYTES = sizeof(struct virtio_net_hdr),
    FRAME_BYTES = 1 << 17,
    SOCKET_BYTES = 64 << 20,
    MOST_WAITING_BYTES = 256 << 20,
    AT_ONCE = 64
};

typedef struct frame {
    struct frame *next;
    int64_t due_ns;
    size_t bytes;
    unsigned char content[];
} frame_t;

typedef struct {
    int socket;
    /* until when what came in here, and what goes out here, occupies the wire */
    int64_t in_busy_ns, out_busy_ns;
    frame_t *first, **last;
    size_t waiting_bytes;
} port_t;

static port_t ports[MOST_PORTS];
static struct pollfd polled[MOST_PORTS];
static int n_ports;
static int64_t latency_ns;
static double ns_per_byte;

static void fail(const char *what) {
    fprintf(stderr, "switch: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void open_port(port_t *port, const char *name) {
    int on = 1, bytes = SOCKET_BYTES;
    port->last = &port->first;
    port->socket = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (port->socket < 0) fail("cannot open a packet socket");
    if (setsockopt(port->socket, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) ||
        setsockopt(port->socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) ||
        setsockopt(port->socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on))
        fail("cannot set up a packet socket");
    /* beyond the system's limit for the privileged only; others get what is allowed */
    if (setsockopt(port->socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes))
        setsockopt(port->socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (setsockopt(port->socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes))
        setsockopt(port->socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex(name)};
    if (!address.sll_ifindex ||
        bind(port->socket, (struct sockaddr *)&address, sizeof address))
        fail(name);
}

/* When the kernel saw the frame, on the monotonic clock: however late this process gets to run, the
 * frame is not delivered later for it unless it is due already. */
static int64_t arrival_ns(struct msghdr *message) {
    int64_t now = clock_ns(CLOCK_MONOTONIC), age = 0;
    struct cmsghdr *c = CMSG_FIRSTHDR(message);
    for (; c; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(c), sizeof t);
            age = clock_ns(CLOCK_REALTIME) - ((int64_t)t.tv_sec * 1000000000 + t.tv_nsec);
        }
    /* the other clock may have been set meanwhile */
    return age > 0 && age < 1000000000 ? now - age : now;
}

static void enqueue(port_t *to, const unsigned char *content, size_t bytes, int64_t due_ns) {
    if (to->waiting_bytes + bytes > MOST_WAITING_BYTES) return;
    frame_t *frame = malloc(sizeof *frame + bytes);
    if (!frame) return;
    *frame = (frame_t){.due_ns = due_ns, .bytes = bytes};
    memcpy(frame->content, content, bytes);
    *to->last = frame;
    to->last = &frame->next;
    to->waiting_bytes += bytes;
}

/* The number of the port that the frame is for; n_ports for all. */
static int receiver_of(const unsigned char *ethernet) {
    int number = ethernet[4] << 8 | ethernet[5];
    return ethernet[0] & 1 || number >= n_ports ? n_ports : number;
}

/* Cut-through: an idle port at either end adds nothing, a busy one makes the frame wait. */
static void forward(int from, const unsigned char *content, size_t bytes, int64_t arrived_ns) {
    int to = receiver_of(content + HEADER_BYTES);
    int64_t wire_ns = (int64_t)((double)(bytes - HEADER_BYTES) * ns_per_byte);
    int64_t *in = &ports[from].in_busy_ns;
    *in = (arrived_ns > *in ? arrived_ns : *in) + wire_ns;
    for (int i = 0; i < n_ports; i++) {
        if (i == from || (to < n_ports && i != to)) continue;
        int64_t *out = &ports[i].out_busy_ns;
        *out = *out + wire_ns > *in ? *out + wire_ns : *in;
        enqueue(&ports[i], content, bytes, *out + latency_ns);
    }
}

static void take(int from) {
    static unsigned char content[FRAME_BYTES];
    union {
        char space[CMSG_SPACE(sizeof(struct timespec))];
        struct cmsghdr align;
    } control;
    for (int i = 0; i < AT_ONCE; i++) {
        struct iovec part = {content, sizeof content};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control};
        ssize_t bytes = recvmsg(ports[from].socket, &message, 0);
        if (bytes < 0 && errno != EAGAIN && errno != EINTR && errno != ENETDOWN)
            fail("cannot receive");
        if (bytes < 0) return;
        if (bytes >= HEADER_BYTES + ETH_HLEN)
            forward(from, content, (size_t)bytes, arrival_ns(&message));
    }
}

static void drop_first(port_t *port) {
    frame_t *frame = port->first;
    port->waiting_bytes -= frame->bytes;
    port->first = frame->next;
    if (!port->first) port->last = &port->first;
    free(frame);
}

/* Delivers what is due at a port; returns when the next frame is, INT64_MAX if there is none. */
static int64_t deliver(port_t *port, int64_t now) {
    while (port->first && port->first->due_ns <= now) {
        ssize_t sent = send(port->socket, port->first->content, port->first->bytes, 0);
        if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) return now + 10000;
        drop_first(port);
    }
    return port->first ? port->first->due_ns : INT64_MAX;
}

static double number(const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0) || value > 1e9) {
        fprintf(stderr, "switch: %s is no number from 0 to 1e9\n", text);
        exit(2);
    }
    return value;
}

static void read_latency(const char *name) {
    char text[32] = "";
    FILE *file = name ? fopen(name, "r") : NULL;
    if (!file) return;
    if (fscanf(file, "%31s", text) == 1) latency_ns = (int64_t)(number(text) * 1e3);
    fclose(file);
}

static void serve(void) {
    int64_t read_ns = 0;
    for (;;) {
        int64_t now = clock_ns(CLOCK_MONOTONIC), next = INT64_MAX;
        if (now >= read_ns) {
            read_latency(getenv("LATENCY_FILE"));
            read_ns = now + 100000000;
        }
        for (int i = 0; i < n_ports; i++) {
            int64_t due = deliver(&ports[i], now);
            next = due < next ? due : next;
        }
        struct timespec wait, *until = NULL;
        if (next != INT64_MAX) {
            int64_t left = next - clock_ns(CLOCK_MONOTONIC);
            left = left > 0 ? left : 0;
            wait = (struct timespec){left / 1000000000, left % 1000000000};
            until = &wait;
        }
        if (ppoll(polled, (nfds_t)n_ports, until, NULL) <= 0) continue;
        for (int i = 0; i < n_ports; i++)
            if (polled[i].revents) take(i);
    }
}

int main(int argc, char **argv) {
    if (argc < 4 || argc > MOST_PORTS + 3) {
        fprintf(stderr, "usage: switch LATENCY_US RATE_MBIT PORT...\n");
        return 2;
    }
    latency_ns = (int64_t)(number(argv[1]) * 1e3);
    double rate_mbit = number(argv[2]);
    ns_per_byte = rate_mbit > 0 ? 8000 / rate_mbit : 0;
    n_ports = argc - 3;
    /* wake up in time, to the nanosecond where the kernel can */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    for (int i = 0; i < n_ports; i++) {
        open_port(&ports[i], argv[3 + i]);
        polled[i] = (struct pollfd){.fd = ports[i].socket, .events = POLLIN};
    }
    puts("ready");
    fflush(stdout);
    serve();
}
