#include "trace/sink/perfetto/pf_about.h"

#include <inttypes.h>
#include <stdio.h>

#include "trace/json/catalog_json.h"
#include "trace/sink/perfetto/pf_names.h"
#include "trace/sink/perfetto/pf_rows.h"

/* maximum number of attributes for each of three lists: processes, inputs, notes */
#define ABOUT_LIST_MAX 1000u

/* State while attributes are written. They may fill several packets. */
typedef struct {
    mrd_pf_file *file;
    const mrd_catalog *catalog;
    uint32_t profile;
    mrd_buf packet;
} pf_about;

static void
pf_attribute(mrd_buf *to, const char *key, mrd_str text)
{
    size_t attribute = mrd_pb_open(to, PF_ATTRIBUTE);

    if (text.len > MRD_PF_TEXT_MAX) {
        text.len = MRD_PF_TEXT_MAX;
        while (text.len > 0 && ((unsigned char) text.p[text.len] & 0xc0) == 0x80)
            text.len--; /* moves back to the begin of a UTF-8 character */
    }
    mrd_pb_str(to, PF_ATTRIBUTE_KEY, mrd_str_of(key));
    mrd_pb_str(to, PF_ATTRIBUTE_TEXT, text);
    mrd_pb_close(to, attribute);
}

void
mrd_pf_attribute_int(mrd_buf *to, const char *key, int64_t v)
{
    size_t attribute = mrd_pb_open(to, PF_ATTRIBUTE);

    mrd_pb_str(to, PF_ATTRIBUTE_KEY, mrd_str_of(key));
    mrd_pb_u64(to, PF_ATTRIBUTE_INT, (uint64_t) v);
    mrd_pb_close(to, attribute);
}

/* Begins another packet if the current one is large, because readers limit the size of packets. */
static size_t
pf_attributes_split(pf_about *about, size_t attributes)
{
    if (about->packet.len < MRD_PF_ARGS_MAX)
        return attributes;
    mrd_pb_close(&about->packet, attributes);
    mrd_pf_packet(about->file, &about->packet);
    mrd_buf_reset(&about->packet);
    return mrd_pb_open(&about->packet, PF_TRACE_ATTRIBUTES);
}

static void
attr_clocks(pf_about *about, mrd_buf *text)
{
    const mrd_catalog *cat = about->catalog;
    size_t n;
    const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &n);

    for (size_t i = 1; i < n && i <= ABOUT_LIST_MAX; i++) {
        const mrd_clock_info *info = &clocks[i];
        char key[64];

        text->len = 0;
        mrd_buf_str(text, mrd_catalog_text(cat, info->name));
        mrd_buf_text(text, ": ");
        mrd_buf_str(text, mrd_catalog_text(cat, info->quality));
        mrd_buf_text(text, " by ");
        mrd_buf_str(text, mrd_catalog_text(cat, info->method));
        mrd_buf_fmt(text, ", session - local %" PRId64 " ns", info->estimate_ns);
        if (info->bound_ns >= 0)
            mrd_buf_fmt(text, " +/- %" PRId64 " ns", info->bound_ns);
        else
            mrd_buf_text(text, ", bound unknown");
        if (info->noise_ns >= 0)
            mrd_buf_fmt(text, ", deviation %" PRId64 " ns", info->noise_ns);
        mrd_buf_fmt(text, ", epochs %u, violations %" PRIu64, info->epochs, info->violations);
        snprintf(key, sizeof(key), "meridian.clock.%04zu", i);
        pf_attribute(&about->packet, key, (mrd_str){ (const char *) text->p, text->len });
    }
}

static size_t
attr_processes(pf_about *about, mrd_buf *text, size_t attributes)
{
    const mrd_catalog *cat = about->catalog;
    size_t said = 0;

    for (size_t i = 0; i < mrd_catalog_processes(cat) && said < ABOUT_LIST_MAX; i++) {
        const mrd_process *process = mrd_catalog_borrow_process(cat, (mrd_proc_id) i);
        char key[64];

        if (process->profile != about->profile)
            continue;
        text->len = 0;
        mrd_pf_rows_describe_process(cat, process, text);
        snprintf(key, sizeof(key), "meridian.process.%04zu", said++);
        pf_attribute(&about->packet, key, (mrd_str){ (const char *) text->p, text->len });
        attributes = pf_attributes_split(about, attributes);
    }
    return attributes;
}

/* Writes an attribute for each incomplete input, and attributes with the totals of all inputs. */
static size_t
attr_inputs(pf_about *about, mrd_buf *text, size_t attributes)
{
    static const char *const states[] = { "ok", "incomplete", "failed", "skipped" };
    const mrd_catalog *cat = about->catalog;
    uint64_t dropped = 0, lost = 0, unfinished = 0, no_start = 0;
    size_t count, said = 0;
    const mrd_input *in = mrd_catalog_inputs(cat, &count);

    for (size_t i = 0; i < count; i++) {
        char key[64];

        dropped += in[i].dropped;
        lost += in[i].lost;
        unfinished += in[i].unfinished;
        no_start += in[i].no_start;
        if ((in[i].state == MRD_INPUT_OK && in[i].dropped == 0 && in[i].lost == 0) ||
            said == ABOUT_LIST_MAX)
            continue;
        text->len = 0;
        mrd_buf_fmt(text,
                    MRD_STR_FMT ": %s, %" PRIu64 " events, %" PRIu64 " dropped, %" PRIu64
                                " lost at the source",
                    MRD_STR_ARG(mrd_catalog_text(cat, in[i].path)),
                    states[in[i].state <= MRD_INPUT_SKIPPED ? in[i].state : MRD_INPUT_FAILED],
                    in[i].events, in[i].dropped, in[i].lost);
        if (in[i].error != MRD_SID_EMPTY)
            mrd_buf_fmt(text, ": " MRD_STR_FMT, MRD_STR_ARG(mrd_catalog_text(cat, in[i].error)));
        snprintf(key, sizeof(key), "meridian.input.%04zu", said++);
        pf_attribute(&about->packet, key, (mrd_str){ (const char *) text->p, text->len });
        attributes = pf_attributes_split(about, attributes);
    }
    mrd_pf_attribute_int(&about->packet, "meridian.inputs", (int64_t) count);
    mrd_pf_attribute_int(&about->packet, "meridian.dropped", (int64_t) dropped);
    mrd_pf_attribute_int(&about->packet, "meridian.lost_at_source", (int64_t) lost);
    mrd_pf_attribute_int(&about->packet, "meridian.unfinished", (int64_t) unfinished);
    mrd_pf_attribute_int(&about->packet, "meridian.ends_without_start", (int64_t) no_start);
    return attributes;
}

void
mrd_pf_write_about(mrd_pf_file *file, const mrd_catalog *cat, uint32_t profile, mrd_dur_ns shift_ns)
{
    pf_about about = { .file = file, .catalog = cat, .profile = profile }, *s = &about;
    mrd_buf text = { 0 };
    size_t attributes = mrd_pb_open(&s->packet, PF_TRACE_ATTRIBUTES);

    pf_attribute(&s->packet, "meridian.collector", MRD_STR("meridian " MRD_RELEASE));
    mrd_pf_attribute_int(&s->packet, "meridian.time_shift_ns", shift_ns);
    for (size_t i = 0; i < mrd_catalog_facts(cat); i++) {
        mrd_str key, value;

        mrd_catalog_fact(cat, i, &key, &value);
        text.len = 0;
        mrd_buf_str(&text, key);
        pf_attribute(&s->packet, mrd_buf_cstr(&text), value);
        attributes = pf_attributes_split(s, attributes);
    }
    attr_clocks(s, &text);
    attributes = attr_processes(s, &text, attributes);
    attributes = attr_inputs(s, &text, attributes);
    for (size_t i = 0; i < mrd_catalog_notes(cat) && i < ABOUT_LIST_MAX; i++) {
        char key[64];

        snprintf(key, sizeof(key), "meridian.note.%04zu", i);
        pf_attribute(&s->packet, key, mrd_catalog_note_at(cat, i));
        attributes = pf_attributes_split(s, attributes);
    }
    mrd_pb_close(&s->packet, attributes);
    mrd_pf_packet(s->file, &s->packet);
    mrd_buf_fini(&s->packet);
    file->err = text.err != MRD_OK ? text.err : file->err;
    mrd_buf_fini(&text);
}

/* ---- The catalog ---- */

#define CATALOG_CHUNK MRD_PF_ARGS_MAX

static bool
push_text(void *self, const void *data, size_t len)
{
    mrd_buf_add(self, data, len);
    return true;
}

void
mrd_pf_write_catalog(mrd_pf_file *file, const mrd_catalog *cat, uint32_t profile)
{
    mrd_buf text = { 0 }, packet = { 0 };
    mrd_out *out = NULL;
    mrd_jw jw;

    if (mrd_out_func(push_text, &text, "catalog", &out, NULL) != MRD_OK) {
        file->err = MRD_NOMEM;
        return;
    }
    mrd_jw_init(&jw, out, mrd_catalog_strings(cat), false);
    mrd_jw_open(&jw, '{');
    mrd_catalog_json(&jw, cat, profile, profile == 0 ? "system_profile" : "device_profile");
    mrd_jw_close(&jw, '}');
    mrd_jw_fini(&jw);
    if (mrd_out_commit(out, NULL) != MRD_OK || text.err != MRD_OK)
        file->err = MRD_NOMEM;
    for (size_t at = 0; file->err == MRD_OK && at < text.len; at += CATALOG_CHUNK) {
        size_t len = text.len - at < CATALOG_CHUNK ? text.len - at : CATALOG_CHUNK;

        mrd_buf_reset(&packet);
        mrd_pb_bytes(&packet, PF_MERIDIAN_CATALOG, text.p + at, len);
        mrd_pf_packet(file, &packet);
    }
    mrd_buf_fini(&packet);
    mrd_buf_fini(&text);
}
