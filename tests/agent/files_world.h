/*
 * tests/agent/files_world.h - capture files of the agent with a fake aggregator, for the tests of
 * agent/files/files.h.
 */
#ifndef MRD_TESTS_AGENT_FILES_WORLD_H
#define MRD_TESTS_AGENT_FILES_WORLD_H

#include <fcntl.h>

#include "agent/files/files.h"
#include "base/clock.h"
#include "tests/fake/link.h"
#include "tests/hw/tree.h"
#include "tests/wait.h"

/* A link to a fake aggregator, which answers only after the step. */
typedef struct {
    fake_aggregator g;
    mrd_files *f;
    mrd_buf answer;
    uint64_t tag;
    bool asked;
    uint64_t finished, failed;
    char last[160];
    const char *grows;                         /* a file that grows when its end frame is sent */
    unsigned unanswered;                       /* steps */
    unsigned told, replaced;                   /* complete files; versions before them */
    unsigned grown, missed;                    /* complete files that grew; missed versions */
    char reason[160];                          /* why the last missed version was missed */
    unsigned announced[8], chunks[8], done[8]; /* of sessions */
    int64_t only[8];                           /* process recorded by each session, 0 for all */
    const char *instance; /* name of the node; NULL if all files belong to the node */
} world;

/* When the end frame of the file is sent, the file grows. It is read again before the answer
 * arrives. */
static inline void
grow(world *w, mrd_bytes frame)
{
    mrd_frame f;
    int fd;

    if (w->grows == NULL || mrd_frame_get(frame, &f, NULL) != MRD_OK || f.type != MRD_FRAME_DONE)
        return;
    CHECK((fd = open(w->grows, O_WRONLY | O_APPEND)) >= 0 && write(fd, "more", 4) == 4);
    close(fd);
    w->grows = NULL;
    w->unanswered = 200;
}

static inline void
count(world *w, mrd_bytes frame)
{
    mrd_frame f;

    if (mrd_frame_get(frame, &f, NULL) != MRD_OK || f.session >= MRD_COUNT(w->announced))
        return;
    w->announced[f.session] += f.type == MRD_FRAME_ANNOUNCE;
    w->chunks[f.session] += f.type == MRD_FRAME_CHUNK;
    w->done[f.session] += f.type == MRD_FRAME_DONE;
}

static inline bool
wants(void *self, uint64_t session, const mrd_files_whose *whose)
{
    const world *w = self;

    return w->only[session] == 0 || w->only[session] == whose->pid;
}

static inline bool
is_ours(void *self, mrd_str instance, int64_t pid, int64_t uid)
{
    const world *w = self;

    (void) uid;
    return w->instance == NULL || mrd_str_is(instance, w->instance) || pid == 99;
}

static inline void
complete(void *self, const mrd_files_complete *file)
{
    world *w = self;

    w->told++;
    w->replaced += file->replaced;
    w->grown += file->grown;
}

static inline void
missed(void *self, const mrd_files_complete *file, const char *reason)
{
    world *w = self;

    w->missed += file->replaced + 1;
    snprintf(w->reason, sizeof(w->reason), "%s", reason);
}

static inline mrd_err
send_frame(void *self, uint64_t tag, mrd_bytes frame)
{
    world *w = self;

    fake_aggregator_take(&w->g, frame);
    mrd_buf_reset(&w->answer);
    mrd_buf_add(&w->answer, w->g.reply.p, w->g.reply.len);
    w->tag = tag;
    w->asked = true;
    count(w, frame);
    grow(w, frame);
    return MRD_OK;
}

static inline void
finished(void *self, const char *path, const char *sha256, const char *message)
{
    world *w = self;

    (void) path;
    (void) sha256;
    w->finished += *message == '\0';
    w->failed += *message != '\0';
    snprintf(w->last, sizeof(w->last), "%s", message);
}

/* One session takes files. */
static inline void
take(world *w, uint64_t session, int64_t start)
{
    mrd_files_sessions(w->f, &(mrd_files_session){ session, { start } }, 1);
}

static int stable_ms = 40;

static inline world *
new_world_of(uint64_t max_bytes, size_t max_files)
{
    world *w = calloc(1, sizeof(*w));
    mrd_files_options o = { .stable = stable_ms * MRD_MS,
                            .max_bytes = max_bytes,
                            .max_files = max_files,
                            .agent = 1,
                            .send = send_frame,
                            .finished = finished,
                            .complete = complete,
                            .missed = missed,
                            .wants = wants,
                            .is_ours = is_ours,
                            .self = w };
    char dir[512];
    mrd_files_place place = { .path = dir, .pid = 9 };

    fake_aggregator_init(&w->g);
    w->g.need_hello = false;
    CHECK_ERR("open", mrd_files_open(&o, &w->f, NULL), MRD_OK);
    snprintf(dir, sizeof(dir), "%s/cap/", test_tmp());
    CHECK_ERR("watch", mrd_files_watch(w->f, &place), MRD_OK);
    CHECK_ERR("again", mrd_files_watch(w->f, &place), MRD_OK);
    take(w, 1, 0);
    return w;
}

static inline world *
new_world(uint64_t max_bytes)
{
    return new_world_of(max_bytes, 0);
}

static inline void
end_world(world *w)
{
    mrd_files_close(w->f);
    fake_aggregator_fini(&w->g);
    mrd_buf_fini(&w->answer);
    free(w);
}

static inline void
step(world *w)
{
    mrd_msg msg = { 0 };

    mrd_files_step(w->f, mrd_local_now());
    if (w->unanswered > 0) {
        w->unanswered--;
        mrd_files_look(w->f);
        test_pace(1000);
        return;
    }
    if (!w->asked)
        return;
    w->asked = false;
    if (w->answer.len == 0) {
        mrd_files_answer(w->f, w->tag, NULL); /* it vanished on the way */
    } else if (mrd_msg_unpack((mrd_bytes){ w->answer.p, w->answer.len }, &msg, NULL) == MRD_OK) {
        mrd_files_answer(w->f, w->tag, &msg);
        mrd_msg_free(&msg);
    }
}

/* Runs steps until `n` files are finished, for at most a minute. */
static inline void
until(world *w, uint64_t n)
{
    for (int64_t end = test_deadline(); w->finished + w->failed < n && test_in_time(end);) {
        step(w);
        if (!w->asked)
            test_look_again();
    }
}

/* Lets time pass and checks that nothing more happens. */
static inline void
run_ms(world *w, int ms)
{
    for (int64_t end = test_clock_ms() + ms; test_clock_ms() < end;) {
        step(w);
        test_pace(1000);
    }
}

#endif
