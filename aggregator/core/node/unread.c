#include "aggregator/core/node/unread.h"

#include <stdio.h>

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "base/obj.h"

void
mrd_unread_take(mrd_unread *unread, const Mrd__Unread *m)
{
    *unread = (mrd_unread){ 0 };
    if (m != NULL)
        *unread = (mrd_unread){ .rings_beyond = m->rings_beyond,
                                .rings_held = m->rings_held,
                                .rings_other_boot = m->rings_other_boot,
                                .directories = m->directories };
}

static void
raise_to(uint32_t *most, uint32_t now)
{
    *most = now > *most ? now : *most;
}

void
mrd_unread_most(mrd_unread *unread, const Mrd__Unread *m)
{
    if (m == NULL)
        return;
    raise_to(&unread->rings_beyond, m->rings_beyond);
    raise_to(&unread->rings_held, m->rings_held);
    raise_to(&unread->directories, m->directories);
    if (m->trace_files >= unread->trace_files && *m->trace_file != '\0')
        mrd_text_set(unread->trace_file, sizeof(unread->trace_file), m->trace_file);
    raise_to(&unread->trace_files, m->trace_files);
    raise_to(&unread->trace_files_later, m->trace_files_later);
}

static uint32_t
trace_files(const mrd_unread *unread)
{
    return unread->trace_files > unread->trace_files_later
               ? unread->trace_files - unread->trace_files_later
               : 0;
}

static void
say(char text[MRD_WHY_MAX], uint32_t n, const char *one, const char *more, const char *why)
{
    size_t len = strlen(text);

    if (n > 0)
        snprintf(text + len, MRD_WHY_MAX - len, "%s%u %s %s", len == 0 ? "" : "; ", n,
                 n == 1 ? one : more, why);
}

bool
mrd_unread_text(const mrd_unread *unread, char text[MRD_WHY_MAX])
{
    size_t len;

    text[0] = '\0';
    say(text, unread->rings_beyond, "ring was", "rings were",
        "not read, and the events in it are not counted: allow the agent more open files (ulimit "
        "-n)");
    say(text, unread->rings_held, "ring is", "rings are",
        "read by another agent of the node: run one agent per node");
    say(text, unread->rings_other_boot, "ring is", "rings are",
        "of another boot and cannot be read: remove it");
    say(text, unread->directories, "capture directory was", "capture directories were",
        "not read: of other users, beyond their user's share, or on a file system that does not "
        "answer (the agent's log names them)");
    say(text, trace_files(unread), "trace file was", "trace files were",
        "read in part or not at all, and the events in the rest are not counted");
    len = strlen(text);
    if (trace_files(unread) > 0 && unread->trace_file[0] != '\0')
        snprintf(text + len, MRD_WHY_MAX - len, "%s%s",
                 trace_files(unread) == 1 ? ": " : ", the last: ", unread->trace_file);
    return text[0] != '\0';
}

void
mrd_unread_put(const mrd_unread *unread, mrd_json *to)
{
    char text[MRD_WHY_MAX];
    mrd_json *json;

    if (!mrd_unread_text(unread, text))
        return;
    json = mrd_json_new_object();
    mrd_json_set(json, "rings_beyond", mrd_json_new_int(unread->rings_beyond));
    mrd_json_set(json, "rings_held", mrd_json_new_int(unread->rings_held));
    mrd_json_set(json, "rings_other_boot", mrd_json_new_int(unread->rings_other_boot));
    mrd_json_set(json, "directories", mrd_json_new_int(unread->directories));
    if (trace_files(unread) > 0) {
        mrd_json_set(json, "trace_files", mrd_json_new_int(trace_files(unread)));
        mrd_json_set(json, "trace_file", mrd_json_new_str(unread->trace_file));
    }
    mrd_json_set(json, "message", mrd_json_new_str(text));
    mrd_json_set(to, "unread", json);
}

void
mrd_unread_load(mrd_unread *unread, const mrd_json *from)
{
    *unread = (mrd_unread){ .rings_beyond = mrd_json_get_u32(from, "rings_beyond"),
                            .rings_held = mrd_json_get_u32(from, "rings_held"),
                            .rings_other_boot = mrd_json_get_u32(from, "rings_other_boot"),
                            .directories = mrd_json_get_u32(from, "directories"),
                            .trace_files = mrd_json_get_u32(from, "trace_files") };
    mrd_text_set(unread->trace_file, sizeof(unread->trace_file),
                 mrd_json_str(from, "trace_file", ""));
}
