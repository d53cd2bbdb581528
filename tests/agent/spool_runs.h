/*
 * tests/agent/spool_runs.h - the model of tests/agent/spool_runs_test.c: the state that the spool
 * must keep, and the states that are allowed after its process was killed.
 */
#ifndef MRD_TESTS_AGENT_SPOOL_RUNS_H
#define MRD_TESTS_AGENT_SPOOL_RUNS_H

#include "agent/spool/spool.h"
#include "tests/check.h"
#include "tests/sim/disk.h"
#include "tests/trace/events.h"

#define DIR_OF "/sim/runs/spool"

enum { FRAMES = 2048, SESSIONS = 90, FIRST = 100, FILES = 64, PLACES = 64, TOLD = 64, RING = 1000 };
enum { RECORD = 16, NOTE_MOST = 60, NOTES = 16 };
/* Largest size of the records of one session: its counts, its base, its lost frames of clock
 * data. */
enum { SESSION_MOST = RECORD + 48 + NOTE_MOST + RECORD + 64 + NOTE_MOST + RECORD + 16 };

typedef enum { HELD, STORED, REFUSED, BEFORE, FORCED, DAMAGED, MISSING } fate;

typedef struct {
    mrd_spool_item item; /* item.id is 0 until the running agent has returned the frame */
    uint64_t segment;    /* number of the segment file that contains the frame */
    uint64_t commit;     /* number of the commit that contains the frame; 0 if not committed */
    fate fate;
    bool sent, rescued, seen;
    bool unsure; /* answered while a disk operation failed */
    bool again;  /* answered, but no file has the answer, so a successor may find the frame */
} frame_model;

typedef struct {
    uint64_t next, committed; /* numbers */
    /* lost frames: the count, the minimum that a successor finds, and the excess that it may
     * find */
    uint64_t clock, clock_least, clock_over;
    uint32_t note_len, pending_len;
    uint8_t note, pending; /* each byte of it */
    bool given_up; /* the pending note may be lost, because few notes of unused sessions are kept */
    bool noted, known, placed, forgotten, has_base;
    mrd_spool_base base;
} session_model;

typedef struct {
    uint64_t number, size;
} file_model;

/* Limits for the number of bytes that an operation writes besides the frames. */
typedef struct {
    uint64_t least, most;
} room;

typedef enum { CALM, DIES, FAILS, SHORT } fault;

typedef struct {
    sim_disk *disk;
    mrd_spool *s;
    uint64_t rand, max_bytes, epoch, since, positions, last_positions, positions_in;
    uint64_t sessions; /* that are used */
    frame_model *frames;
    size_t n;
    session_model of[SESSIONS];
    char boot;
    /* The fault to inject in a disk call. `left` is the number of calls until then. */
    fault what;
    unsigned left, part;
    bool failed; /* a disk call failed in this operation */
    /* in this run, some record could not be written for lack of space, or this may have happened */
    bool starved;
    bool torn; /* a record may be incomplete */
    bool opening, limited;
    bool hungry; /* the disk is usually full, with many frames in flight */
    bool over;   /* uncommitted frames were forced out, and the process was killed */
    /* The operation that runs. */
    bool committing;
    frame_model *answered;
    fate answer;
    uint64_t clock_lost; /* session + 1 */
    bool may_force;
    unsigned n_forced;
    size_t n_files;
    file_model files[FILES];
    unsigned runs, forced, answers_again, damages, boots, kills;
} model;

static inline uint64_t
draw(model *m, uint64_t below)
{
    return (test_rand(&m->rand) >> 11) % below;
}

static inline session_model *
session_of(model *m, uint64_t session)
{
    return &m->of[session - FIRST];
}

static inline bool
is_clock(const frame_model *f)
{
    return f->item.type == MRD_FRAME_CLOCK_DATA;
}

void runs_before(void *self, const sim_disk_op *op, sim_disk_verdict *ret_verdict);
void runs_list_files(model *m);
const file_model *runs_file_of(const model *m, uint64_t number);
uint64_t runs_last_file(const model *m);
uint64_t runs_bytes_on_disk(const model *m);
uint8_t *runs_bytes_of(const mrd_spool_item *item);
void runs_check_all(model *m);
void runs_dropped(void *self, const mrd_spool_item *item);
bool runs_is_last(const model *m);
bool runs_oldest_waits(const model *m);
void runs_converge(model *m, uint64_t bytes_before, uint64_t last_before, uint64_t last_len,
                   room need);
void runs_give_places(model *m);
void runs_committed(model *m);
void runs_adopt(model *m, bool damaged, bool rebooted, bool killed);

#endif
