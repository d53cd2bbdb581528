/* Encodes and decodes a clock table (docs/reference/timesync.md), and summarizes it. */
#include "timesync/align.h"

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "timesync/align_impl.h"
#include "timesync/bytes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const uint8_t magic[8] = { 'M', 'R', 'D', 'A', 'L', 'I', 'G', 'N' };

/* bytes of the header: magic, version u32, crc u32 of the payload, payload length u64 */
#define HEADER_LEN 24

/* ---- Summary of one segment ---- */

static mrd_dur_ns
quantile(double *v, size_t n, double q)
{
    size_t i = (size_t) (q * (double) (n - 1));

    return llround(v[i]);
}

static void
summarise_counts(const mrd_align_bin *bins, size_t n, mrd_align_summary *to)
{
    size_t count[MRD_ALIGN_QUALITIES] = { 0 };
    size_t best = 0;

    to->source = bins[0].source;
    for (size_t i = 0; i < n; i++) {
        count[bins[i].quality]++;
        to->source = bins[i].source < to->source ? bins[i].source : to->source;
    }
    for (size_t i = 0; i < MRD_ALIGN_QUALITIES; i++)
        best = count[i] > count[best] ? i : best;
    to->quality = (uint8_t) best;
}

bool
mrd_align_summarise(const mrd_align *align, size_t segment, mrd_align_summary *ret_summary)
{
    const mrd_align_segment *seg = mrd_align_borrow_segment(align, segment);
    const mrd_align_bin *bins, *last;
    mrd_align_summary summary = { 0 };
    double *v;

    if (seg == NULL || seg->count == 0 || (v = malloc(seg->count * sizeof(*v))) == NULL)
        return false;
    bins = &align->bins[seg->first];
    last = &bins[seg->count - 1];
    summary.epoch = seg->epoch;
    summary.cause = seg->cause;
    summary.first = bins[0].at;
    summary.last = last->at;
    summary.offset = seg->base + llround(last->est);
    summary.rate = (double) last->rate;
    summary.w = seg->w;
    summary.bins = seg->count;
    summarise_counts(bins, seg->count, &summary);
    for (size_t i = 0; i < seg->count; i++)
        v[i] = (double) bins[i].noise;
    qsort(v, seg->count, sizeof(*v), mrd_double_order);
    summary.noise_median = quantile(v, seg->count, 0.5);
    for (size_t i = 0; i < seg->count; i++)
        v[i] = bins[i].hi - bins[i].lo;
    qsort(v, seg->count, sizeof(*v), mrd_double_order);
    summary.width_median = quantile(v, seg->count, 0.5);
    summary.width_p99 = quantile(v, seg->count, 0.99);
    if (summary.quality == MRD_ALIGN_UNALIGNED)
        summary.width_median = summary.width_p99 = -1;
    free(v);
    *ret_summary = summary;
    return true;
}

/* ---- Encoding a table ---- */

static void
encode_bin(const mrd_align_bin *bin, int64_t *at, int64_t *est, mrd_buf *to)
{
    int64_t mid = llround(bin->est);

    mrd_put_zigzag(to, (int64_t) ((uint64_t) bin->at.ns - (uint64_t) *at));
    mrd_put_zigzag(to, mid - *est);
    mrd_put_varint(to, (uint64_t) (mid - (int64_t) fmin(floor(bin->lo), (double) mid)));
    mrd_put_varint(to, (uint64_t) ((int64_t) fmax(ceil(bin->hi), (double) mid) - mid));
    mrd_put_float(to, bin->rate);
    mrd_put_float(to, bin->rate_lo);
    mrd_put_float(to, bin->rate_hi);
    mrd_put_varint(to, (uint64_t) llround((double) bin->noise));
    mrd_put_fixed(to, bin->quality, 1);
    mrd_put_fixed(to, bin->source, 1);
    *at = bin->at.ns;
    *est = mid;
}

static void
encode_payload(const mrd_align *align, mrd_buf *to)
{
    size_t len = strlen(align->name);

    mrd_put_varint(to, len);
    mrd_buf_add(to, align->name, len);
    mrd_put_fixed(to, align->clock_id, 8);
    mrd_put_varint(to, align->segment_count);
    for (size_t s = 0; s < align->segment_count; s++) {
        const mrd_align_segment *seg = &align->segments[s];
        int64_t at = 0, est = 0;

        mrd_put_varint(to, seg->epoch);
        mrd_put_fixed(to, (uint64_t) seg->cause, 1);
        mrd_put_fixed(to, (uint64_t) seg->base, 8);
        mrd_put_double(to, seg->w);
        mrd_put_fixed(to, (uint64_t) seg->from.ns, 8);
        mrd_put_fixed(to, (uint64_t) seg->to.ns, 8);
        mrd_put_varint(to, seg->count);
        for (size_t i = 0; i < seg->count; i++)
            encode_bin(&align->bins[seg->first + i], &at, &est, to);
    }
}

mrd_err
mrd_align_encode(const mrd_align *align, mrd_buf *to)
{
    mrd_buf payload = { 0 };

    encode_payload(align, &payload);
    mrd_buf_add(to, magic, sizeof(magic));
    mrd_put_fixed(to, MRD_ALIGN_FILE_VERSION, 4);
    mrd_put_fixed(to, mrd_crc32(0, payload.p, payload.len), 4);
    mrd_put_fixed(to, payload.len, 8);
    mrd_buf_add(to, payload.p, payload.len);
    if (payload.err != MRD_OK)
        to->err = payload.err;
    mrd_buf_fini(&payload);
    return to->err;
}

/* ---- Decoding a table ---- */

/* bytes of the shortest encoded bin; limits how many bins a file of this size can contain */
#define BIN_LEN_MIN 18

static double
offset_from(int64_t mid, uint64_t distance, double sign)
{
    return (double) mid + sign * (double) distance;
}

static mrd_err
decode_bin(mrd_reader *reader, mrd_align *align, int64_t *at, int64_t *est)
{
    mrd_align_bin bin = { 0 };

    *at = (int64_t) ((uint64_t) *at + (uint64_t) mrd_reader_zigzag(reader));
    *est = (int64_t) ((uint64_t) *est + (uint64_t) mrd_reader_zigzag(reader));
    bin.at.ns = *at;
    bin.est = (double) *est;
    bin.lo = offset_from(*est, mrd_reader_varint(reader), -1);
    bin.hi = offset_from(*est, mrd_reader_varint(reader), 1);
    bin.rate = mrd_reader_float(reader);
    bin.rate_lo = mrd_reader_float(reader);
    bin.rate_hi = mrd_reader_float(reader);
    bin.noise = (float) mrd_reader_varint(reader);
    bin.quality = (uint8_t) mrd_reader_fixed(reader, 1);
    bin.source = (uint8_t) mrd_reader_fixed(reader, 1);
    return reader->bad ? MRD_TRUNCATED : mrd_align_bin_add(align, &bin);
}

static mrd_err
decode_segment(mrd_reader *reader, mrd_align *align)
{
    uint64_t epoch = mrd_reader_varint(reader), cause = mrd_reader_fixed(reader, 1);
    int64_t base = (int64_t) mrd_reader_fixed(reader, 8), at = 0, est = 0;
    double w = mrd_reader_double(reader);
    int64_t from = (int64_t) mrd_reader_fixed(reader, 8),
            to = (int64_t) mrd_reader_fixed(reader, 8);
    uint64_t count = mrd_reader_varint(reader);
    mrd_err err;

    if (reader->bad)
        return MRD_TRUNCATED;
    if (count == 0 || count > (reader->len - reader->at) / BIN_LEN_MIN || epoch > UINT32_MAX ||
        cause > 255)
        return MRD_CORRUPT;
    err = mrd_align_segment_add(align, (uint32_t) epoch, (mrd_epoch_cause) cause, base, w);
    for (uint64_t i = 0; i < count && err == MRD_OK; i++)
        err = decode_bin(reader, align, &at, &est);
    return err == MRD_OK ? mrd_align_segment_extent(align, from, to) : err;
}

static mrd_err
decode_payload(mrd_reader *reader, mrd_align **ret_align)
{
    uint64_t len = mrd_reader_varint(reader), segments;
    char name[MRD_ALIGN_NAME_MAX + 1] = { 0 };
    mrd_align *align;
    mrd_err err = MRD_OK;

    if (reader->bad || len > MRD_ALIGN_NAME_MAX || len > reader->len - reader->at)
        return reader->bad ? MRD_TRUNCATED : MRD_CORRUPT;
    memcpy(name, reader->p + reader->at, len);
    reader->at += len;
    if (memchr(name, 0, len) != NULL)
        return MRD_CORRUPT;
    if ((align = mrd_align_new(name, mrd_reader_fixed(reader, 8))) == NULL)
        return MRD_NOMEM;
    segments = mrd_reader_varint(reader);
    if (reader->bad)
        err = MRD_TRUNCATED;
    for (uint64_t i = 0; i < segments && err == MRD_OK; i++)
        err = decode_segment(reader, align);
    if (err == MRD_OK && reader->at != reader->len)
        err = MRD_CORRUPT;
    if (err == MRD_OK)
        *ret_align = align;
    else
        mrd_align_free(align);
    return err;
}

mrd_err
mrd_align_decode(mrd_bytes data, mrd_align **ret_align, mrd_why *why)
{
    mrd_reader reader = { data.p, data.len, 0, false };
    uint64_t version, crc, len;
    mrd_err err;

    if (data.len < HEADER_LEN)
        return mrd_why_set(why, MRD_TRUNCATED, 0, "alignment table of %zu bytes has no header",
                           data.len);
    if (memcmp(data.p, magic, sizeof(magic)) != 0)
        return mrd_why_set(why, MRD_FORMAT, 0, "not an alignment table: wrong magic");
    reader.at = sizeof(magic);
    version = mrd_reader_fixed(&reader, 4);
    crc = mrd_reader_fixed(&reader, 4);
    len = mrd_reader_fixed(&reader, 8);
    if (version != MRD_ALIGN_FILE_VERSION)
        return mrd_why_set(why, MRD_VERSION, 0, "alignment table has version %llu, this reads %d",
                           (unsigned long long) version, MRD_ALIGN_FILE_VERSION);
    if (len != data.len - HEADER_LEN)
        return mrd_why_set(why, len > data.len - HEADER_LEN ? MRD_TRUNCATED : MRD_CORRUPT, 0,
                           "alignment table declares %llu bytes behind its header, %zu follow",
                           (unsigned long long) len, data.len - HEADER_LEN);
    if (mrd_crc32(0, data.p + HEADER_LEN, data.len - HEADER_LEN) != crc)
        return mrd_why_set(why, MRD_CORRUPT, 0, "alignment table: wrong checksum");
    err = decode_payload(&reader, ret_align);
    if (err == MRD_INVALID) /* no writer produces such a bin or segment, so the file is corrupt */
        err = MRD_CORRUPT;
    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "alignment table: bad content before offset %zu",
                           reader.at);
    return MRD_OK;
}

mrd_err
mrd_align_save(const mrd_align *align, const char *path, mrd_why *why)
{
    mrd_buf buf = { 0 };
    mrd_err err = mrd_align_encode(align, &buf);

    if (err != MRD_OK)
        err = mrd_why_set(why, err, 0, "alignment table '%s'", path);
    else
        err = mrd_write_file(path, (mrd_bytes){ buf.p, buf.len }, 0644, why);
    mrd_buf_fini(&buf);
    return err;
}

mrd_err
mrd_align_load(const char *path, mrd_align **ret_align, mrd_why *why)
{
    mrd_buf buf = { 0 };
    mrd_err err = mrd_file_read(path, MRD_ALIGN_FILE_MAX, &buf, why);

    if (err != MRD_OK)
        (void) mrd_why_prefix(why, err, "alignment table");
    if (err == MRD_OK) {
        err = mrd_align_decode((mrd_bytes){ buf.p, buf.len }, ret_align, why);
        if (err != MRD_OK)
            (void) mrd_why_prefix(why, err, "'%s'", path);
    }
    mrd_buf_fini(&buf);
    return err;
}
