/*
 * tests/fake/link.h - a minimal aggregator and two transports to it. One runs in this process, with
 * delay, loss, duplication and reordering drawn from a seed. The other uses a socket to a process
 * that may be killed. The aggregator counts stored frames exactly once by (epoch, session, number).
 */
#ifndef MRD_TESTS_FAKE_LINK_H
#define MRD_TESTS_FAKE_LINK_H

#include "agent/link/transport.h"
#include "proto/batch/batch.h"
#include "proto/wire.h"

#define FAKE_IDS 4194304u

typedef struct {
    /* Stored data. */
    uint64_t frames, duplicates, events, losses, lost, bytes;
    uint8_t *seen;    /* how often each event id (argument or span id) was stored */
    uint64_t unknown; /* events without an id */
    uint64_t no_start, unfinished;
    int64_t dur_ns;   /* sum of all complete spans */
    unsigned no_room; /* number of next announcements to refuse because the store is full */
    uint64_t announces, chunks, artifacts, artifact_bytes, hellos, heartbeats;
    int64_t first_ns, last_ns;
    Mrd__NodePhase phase; /* phase of the first session, from the last heartbeat */
    uint64_t begun, delivered, held, dropped; /* ... and its counters */
    uint32_t cut_files;                       /* number of trace files that were read in part */
    char cut_file[256];
    char state[32];
    /* How it behaves. */
    bool need_hello;         /* true until the hello of this connection arrived */
    unsigned refuse;         /* number of next frames to refuse with "try again" */
    unsigned never;          /* number of next frames to refuse for good */
    bool have_all;           /* reports every artifact as already stored */
    Mrd__Control *directive; /* sent in each welcome; NULL for none */
    uint64_t cut_at;         /* the first artifact chunk with this offset is lost */
    /* Inside. */
    struct fake_key *keys;
    size_t n_keys, cap_keys;
    mrd_codec *codec;
    mrd_batch_reader *reader;
    mrd_catalog *catalog;
    uint8_t *artifact;
    size_t artifact_len, artifact_cap;
    char sha256[65];
    mrd_buf reply;
} fake_aggregator;

void fake_aggregator_init(fake_aggregator *g);
void fake_aggregator_fini(fake_aggregator *g);
/* Handles a frame. The answer is in g->reply, empty if there is none. */
void fake_aggregator_take(fake_aggregator *g, mrd_bytes frame);

typedef struct {
    uint64_t seed;
    unsigned loss, twice, late; /* per 1000: lost requests, duplicated requests, late replies */
    mrd_dur_ns delay;           /* delay of each reply; doubled for late replies */
    mrd_dur_ns resend; /* time after which the transport resends a request; 0 means 20 ms */
    bool down;         /* drops everything while set; may change at any time */
} fake_faults;

/* Creates an in-process transport to g. `faults` is borrowed and may change. */
mrd_transport *fake_link(fake_aggregator *g, fake_faults *faults, unsigned window);
/* Sends a survey to the agent of this link and discards the answer. */
void fake_link_ask(mrd_transport *t, const Mrd__Control *control);

/* Creates a transport over a stream socket. The other end calls fake_serve. */
mrd_transport *fake_pipe(int fd, unsigned window);
/* Answers the requests that have arrived. Returns false if the peer has closed the socket. */
bool fake_serve(fake_aggregator *g, int fd, mrd_buf *pending);

#endif
