/*
 * tests/fake/link.h - an aggregator of a few lines and two ways to it: in this process with delay,
 * loss, duplication and reordering drawn from a seed, and over a socket to a process that may be
 * killed. Counts what it stored, exactly once by (epoch, session, number).
 */
#ifndef MRD_TESTS_FAKE_LINK_H
#define MRD_TESTS_FAKE_LINK_H

#include "agent/transport.h"
#include "proto/batch.h"
#include "proto/wire.h"

#define FAKE_IDS 4194304u

typedef struct {
    /* What it holds. */
    uint64_t frames, duplicates, events, losses, lost, bytes;
    uint8_t *seen;    /* per event id (argument or span id), how often stored */
    uint64_t unknown; /* events without an id */
    uint64_t no_start, unfinished;
    int64_t dur_ns;   /* of all complete spans together */
    unsigned no_room; /* so many announces find the store full */
    uint64_t announces, chunks, artifacts, artifact_bytes, hellos, heartbeats;
    int64_t first_ns, last_ns;
    Mrd__NodePhase phase;                     /* of the first session, as the last heartbeat said */
    uint64_t begun, delivered, held, dropped; /* ... and its counters */
    char state[32];
    /* How it behaves. */
    bool need_hello;         /* until hello on this connection */
    unsigned refuse;         /* the next so many frames are not stored: try again */
    unsigned never;          /* the next so many are refused for good */
    bool have_all;           /* says it has every artifact */
    Mrd__Control *directive; /* in each welcome, NULL: none */
    uint64_t cut_at;         /* artifact chunks at this offset vanish once */
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
/* Handles a frame; its answer is g->reply (empty: none). */
void fake_aggregator_take(fake_aggregator *g, mrd_bytes frame);

typedef struct {
    uint64_t seed;
    unsigned loss, twice, late; /* of 1000: requests that vanish, arrive twice; replies that wait */
    mrd_dur_ns delay;           /* of each reply, doubled for late ones */
    mrd_dur_ns resend;          /* the transport's; 0: 20 ms */
    bool down;                  /* nothing goes through while set; change it at will */
} fake_faults;

/* An in-process transport to g; faults is borrowed and may change. */
mrd_transport *fake_link(fake_aggregator *g, fake_faults *faults, unsigned window);
/* A survey to the agent behind this link; the answer is thrown away. */
void fake_link_ask(mrd_transport *t, const Mrd__Control *control);

/* A transport over a stream socket; the other end calls fake_serve. */
mrd_transport *fake_pipe(int fd, unsigned window);
/* Answers what has arrived; false when the peer is gone. */
bool fake_serve(fake_aggregator *g, int fd, mrd_buf *pending);

#endif
