#include "capture/nrt/nrt_text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sys/threads.h"
#include "capture/api/record.h"

#define DAY_NS   86400000000000LL
#define REST_MIN (64u << 10)

/* ---- the queue of fetched texts -------------------------------------------------------------- */

bool
mrd_sys_texts_add(mrd_sys_texts *texts, const char *p, size_t len)
{
    mrd_sys_text *text = malloc(sizeof(*text) + len);

    if (text == NULL)
        return false;
    *text = (mrd_sys_text){ .len = len, .wanted = mrd_rec_on(MRD_CAP_SYS) };
    memcpy(text->p, p, len);
    *(texts->first == NULL ? &texts->first : texts->last) = text;
    texts->last = &text->next;
    texts->bytes += len;
    return true;
}

void
mrd_sys_texts_drop_first(mrd_sys_texts *texts)
{
    mrd_sys_text *text = texts->first;

    texts->first = text->next;
    texts->bytes -= text->len;
    free(text);
}

/* ---- writing texts to the ring --------------------------------------------------------------- */

/* set by mrd_sys_text_apart: the next text does not continue the previous ones */
static bool apart;

void
mrd_sys_text_apart(void)
{
    apart = true;
}

static uint32_t
blob_name(void)
{
    static uint32_t name;

    if (name == 0)
        name = mrd_rec_name("nrt_sys_trace");
    return name;
}

/* Returns true if the ring has room to begin a text of this length. A text that is cut is useless,
 * so the ring must have room for all of it. A text longer than the ring begins when about half the
 * ring is free. */
static bool
may_begin(size_t len)
{
    size_t max = mrd_rec_blob_max();

    return mrd_rec_blob_fits(len < max ? len : max / 2);
}

static bool
put(const char *p, size_t len, bool wanted, size_t *at, uint32_t *seq)
{
    mrd_rec_blob blob = { blob_name(), *seq, apart, p, len, *at };

    if (!wanted) {
        apart = true; /* recording was off when the text was fetched, so the text is dropped */
        return true;
    }
    if (*at == 0 && !may_begin(len))
        return false;
    switch (mrd_rec_blob_put(&blob)) {
    case MRD_BLOB_SILENT:
        apart = true;
        return true;
    case MRD_BLOB_DONE:
        apart = false;
        return true;
    case MRD_BLOB_ROOM:
        break;
    }
    *at = blob.at;
    *seq = blob.seq;
    return false;
}

bool
mrd_sys_text_put(mrd_sys_text *text)
{
    return put(text->p, text->len, text->wanted, &text->at, &text->seq);
}

bool
mrd_sys_text_put_whole(const char *p, size_t len)
{
    size_t at = 0;
    uint32_t seq = 0;

    return len <= mrd_rec_blob_max() && put(p, len, mrd_rec_on(MRD_CAP_SYS), &at, &seq);
}

/* ---- counting the events in a text ----------------------------------------------------------- */

static const char *
find(const char *p, const char *end, const char *word, size_t len)
{
    return memmem(p, (size_t) (end - p), word, len);
}

#define FIND(p, end, word) find((p), (end), (word), sizeof(word) - 1)

static int64_t
number_at(const char *p, const char *end)
{
    int64_t v = 0;

    while (p < end && (*p == ' ' || *p == ':' || *p == '"'))
        p++;
    for (; p < end && *p >= '0' && *p <= '9' && v < INT64_MAX / 10 - 1; p++)
        v = v * 10 + (*p - '0');
    return v;
}

static void
sys_text_sum(const char *p, size_t len, int64_t wall_ns, mrd_sys_sum *sum)
{
    const char *end = p + len, *at = p;

    sum->numbered = sum->numbered || FIND(p, end, "\"nc_local_id\"") != NULL;
    while ((at = FIND(at, end, "\"event_type\"")) != NULL) {
        sum->events++;
        at += 12;
    }
    at = p;
    while ((at = FIND(at, end, "\"timestamp_ns\"")) != NULL) {
        int64_t ns = number_at(at += 14, end);

        if (ns < wall_ns - DAY_NS || ns > wall_ns + DAY_NS)
            continue; /* skip a time of the device's clock */
        if (sum->first.ns == 0 || ns < sum->first.ns)
            sum->first = (mrd_wall_ns){ ns };
        if (ns > sum->last.ns)
            sum->last = (mrd_wall_ns){ ns };
    }
}

/* ---- texts that are left when the process ends ----------------------------------------------- */

typedef struct {
    mrd_sys_texts *q;
    size_t bytes;
} rest_job;

static void *
rest_work(void *arg)
{
    const rest_job *job = arg;

    mrd_rec_thread_ring_size(job->bytes);
    mrd_rec_thread_ring_rest();
    mrd_rec_thread_name(MRD_NRT_REST_THREAD);
    while (job->q->first != NULL && mrd_sys_text_put(job->q->first))
        mrd_sys_texts_drop_first(job->q);
    return NULL;
}

/* Writes the queued texts to an extra ring. A new thread does this, because each ring belongs to
 * one thread. Returns true if it wrote some texts. */
static bool
rest_ring(mrd_sys_texts *texts)
{
    size_t want = texts->bytes + texts->bytes / 64 + REST_MIN, room = mrd_rec_ring_room();
    rest_job job = { texts, want < room ? want : room };
    const mrd_sys_text *before = texts->first;
    pthread_t thread;

    if (room < REST_MIN || mrd_masked_thread(&thread, NULL, rest_work, &job) != 0)
        return false;
    pthread_join(thread, NULL);
    return texts->first != before;
}

/* If part of the first text is already in the ring, ends the text there and drops the rest. Adds
 * the number of dropped events to *sum. */
static void
drop_half(mrd_sys_texts *texts, int64_t wall, mrd_sys_sum *sum)
{
    const mrd_sys_text *text = texts->first;

    if (text == NULL || text->at == 0)
        return;
    sys_text_sum(text->p + text->at, text->len - text->at, wall, sum);
    mrd_sys_texts_drop_first(texts);
}

static mrd_wall_ns
wall_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (mrd_wall_ns){ (int64_t) ts.tv_sec * 1000000000 + ts.tv_nsec };
}

/* Empties the queue. Reports all events in it as lost, and also the events that the caller has
 * counted in *sum. */
static void
lose(mrd_sys_texts *texts, mrd_wall_ns now, mrd_sys_sum *sum)
{
    drop_half(texts, now.ns, sum);
    for (; texts->first != NULL; mrd_sys_texts_drop_first(texts))
        sys_text_sum(texts->first->p, texts->first->len, now.ns, sum);
    mrd_rec_blob_lose(sum->events, sum->first.ns == 0 ? now.ns : sum->first.ns,
                      sum->last.ns == 0 ? now.ns : sum->last.ns);
}

void
mrd_sys_texts_lose(mrd_sys_texts *texts)
{
    lose(texts, wall_now(), &(mrd_sys_sum){ 0 });
    apart = true;
}

void
mrd_sys_texts_rest(mrd_sys_texts *texts)
{
    mrd_wall_ns now = wall_now();
    mrd_sys_sum sum = { 0 };

    drop_half(texts, now.ns, &sum);
    while (texts->first != NULL && texts->first->at == 0 && rest_ring(texts))
        ;
    lose(texts, now, &sum);
}
