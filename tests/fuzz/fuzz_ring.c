/*
 * Fuzzes the ring reader. If the first byte of the input is 0, the rest is the ring file. Otherwise
 * an honest ring is patched with the rest: {offset u16 in units of 4 bytes, length u8, bytes}.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ring/ring_read.h"
#include "capture/ring/ring_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DATA_LEN 4096u
#define DICT_LEN 4096u
#define FILE_LEN (MRD_RING_HEADER_LEN + DICT_LEN + DATA_LEN)

static void
put(mrd_ring_writer *w, unsigned kind, unsigned units, const void *body, size_t len)
{
    mrd_ring_rec *rec = mrd_ring_reserve_slow(w, (size_t) units * 32, 1000, false);

    if (rec == NULL)
        return;
    memset(rec, 0, (size_t) units * 32);
    rec->kind = (uint8_t) kind;
    rec->flags = units > 1 ? MRD_RECF_BODY : 0;
    rec->units = (uint16_t) units;
    rec->name = 1;
    rec->ts = 1000;
    rec->value = 5;
    memcpy(rec + 1, body, len);
    mrd_ring_commit(w, (size_t) units * 32);
}

static void
honest(uint8_t *mem)
{
    static mrd_ring_writer w;
    mrd_ring_owner_claim claim = { .start_ticks = 7, .pid = 100, .clock = MRD_RING_CLOCK_TSC };
    mrd_ring_track track = { MRD_RING_TRACK_COUNTER, -1, -1, -1, 1, 0 };
    uint64_t items[] = { MRD_ITEM_I64 | 8ull << 16 | 1ull << 32, 42,
                         MRD_ITEM_TEXT | 3ull << 16 | 1ull << 32, 0x636261 };

    memset(&w, 0, sizeof(w));
    claim.ident = "exe=/bin/x\nRANK=1\n";
    claim.ident_len = 18;
    mrd_ring_create_mem(&w, mem, &claim, 101, DATA_LEN, DICT_LEN);
    w.hdr->cal[0] = (mrd_ring_cal){ 1000, 1000, 5000, 10 }; /* the same in every run */
    w.hdr->cal[1] = (mrd_ring_cal){ 3000, 2500, 6500, 10 };
    w.cal_due = UINT64_MAX;
    mrd_ring_define_thread(&w, 101, "main", 4);
    mrd_ring_define_text(&w, 1, "name", 4);
    mrd_ring_define_track(&w, 1, &track, "track", 5);
    for (unsigned i = 0; i < 40; i++)
        put(&w, MRD_REC_SPAN + i % 12, i % 3 == 0 ? 2 : 1, items, i % 3 == 0 ? sizeof(items) : 0);
    w.hdr->depth = 2;
    w.hdr->open[0] = (mrd_ring_scope){ 1000, 1ull << 32, 0, 0 };
    w.hdr->open[1] = (mrd_ring_scope){ 1001, 1ull << 32, 0, 0 };
    mrd_ring_lose(w.hdr, MRD_RING_LOST_FULL, 2000, 3);
}

static void
patch(uint8_t *mem, const uint8_t *data, size_t size)
{
    while (size >= 3) {
        size_t off = ((size_t) data[0] | (size_t) data[1] << 8) * 4 % FILE_LEN, len = data[2];

        data += 3;
        size -= 3;
        len = len < size ? len : size;
        len = len < FILE_LEN - off ? len : FILE_LEN - off;
        memcpy(mem + off, data, len);
        data += len;
        size -= len;
    }
}

/* Uses every function of a reader. Aborts if reading does not end. */
static void
read_all(uint8_t *mem, size_t len)
{
    mrd_ring_reader *r = NULL;
    mrd_ring_event ev;
    mrd_ring_stats st;
    mrd_why why;
    size_t sum = 0;

    if (mrd_ring_open_mem(mem, len, NULL, &r, &why) != MRD_OK)
        return;
    sum += mrd_ring_ident(r, "RANK").len;
    for (size_t steps = 0;; steps++) {
        mrd_ring_step step = mrd_ring_next(r, &ev, &why);
        mrd_ring_items items = { ev.body, ev.body_len };
        mrd_ring_arg arg;

        if (steps > len / 32 + 200)
            abort();
        if (step == MRD_RING_BAD || step == MRD_RING_END)
            break;
        if (step == MRD_RING_AGAIN) {
            mrd_ring_assume_dead(r);
            continue;
        }
        sum += mrd_ring_text(r, ev.name).len + mrd_ring_text(r, ev.domain).len + ev.name_text.len;
        sum +=
            mrd_ring_track_of(r, ev.track) != NULL ? mrd_ring_track_of(r, ev.track)->name.len : 0;
        sum += mrd_ring_thread_name(r, ev.tid).len;
        if (step == MRD_RING_LOST)
            continue;
        for (uint32_t i = 0; ev.kind == MRD_REC_BLOB && i < ev.body_len; i++)
            sum += ev.body[i];
        while (ev.kind != MRD_REC_BLOB && mrd_ring_item_next(&items, &arg)) {
            const char *p = arg.type == MRD_ITEM_TEXT ? arg.v.text.p : arg.key_text.p;
            size_t n = arg.type == MRD_ITEM_TEXT ? arg.v.text.len : arg.key_text.len;

            while (n > 0)
                sum += (uint8_t) p[--n];
        }
        if (steps % 3 == 0)
            (void) mrd_ring_release(r);
    }
    mrd_ring_get_stats(r, &st);
    if (sum + (size_t) st.records == SIZE_MAX) /* prevents that the sum is optimised away */
        abort();
    mrd_ring_close(r);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool raw = size > 0 && data[0] == 0;
    size_t len = raw ? size - 1 : FILE_LEN;
    uint8_t *mem;

    if (posix_memalign((void **) &mem, 64, len > 0 ? len : 1) != 0)
        return 0;
    if (raw) {
        memcpy(mem, data + 1, len);
    } else {
        memset(mem, 0, len);
        honest(mem);
        if (size > 0)
            patch(mem, data + 1, size - 1);
    }
    read_all(mem, len);
    free(mem);
    return 0;
}
