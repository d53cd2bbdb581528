#include "trace/table/schema.h"

#include "base/obj.h"

#define I(name, field, unit, what)                                                                 \
    {                                                                                              \
        name, MRD_COL_I64, field, false, unit, what                                                \
    }
#define D(name, field, unit, what)                                                                 \
    {                                                                                              \
        name, MRD_COL_DOUBLE, field, false, unit, what                                             \
    }
#define S(name, field, what)                                                                       \
    {                                                                                              \
        name, MRD_COL_SID, field, false, "", what                                                  \
    }
#define T(name, field, what)                                                                       \
    {                                                                                              \
        name, MRD_COL_TEXT, field, false, "", what                                                 \
    }
#define OI(name, field, unit, what)                                                                \
    {                                                                                              \
        name, MRD_COL_I64, field, true, unit, what                                                 \
    }
#define OS(name, field, what)                                                                      \
    {                                                                                              \
        name, MRD_COL_SID, field, true, "", what                                                   \
    }
#define OT(name, field, what)                                                                      \
    {                                                                                              \
        name, MRD_COL_TEXT, field, true, "", what                                                  \
    }
#define F(name, field, unit, what)                                                                 \
    {                                                                                              \
        name, MRD_COL_FLOAT, field, false, unit, what                                              \
    }

#define SESSION S("session_id", F_SESSION, "the session, '' for files")
#define TIMES                                                                                      \
    I("ts_ns", F_TS, "ns", "begin, session time"),                                                 \
        I("bound_ns", F_BOUND, "ns",                                                               \
          "largest error of ts_ns; 0 never crossed a clock, -1 unknown")
#define PROCESS                                                                                    \
    I("process_key", F_PROC, "", "row of the process in processes"),                               \
        S("instance_id", F_INSTANCE, "node"), I("process_id", F_PID, "", "process on its node"),   \
        I("rank", F_RANK, "", "rank of the process, -1 unknown"),                                  \
        I("clock_id", F_CLOCK, "", "row of its clock in clocks")
#define CORE                                                                                       \
    I("lnc_idx", F_LNC, "", "logical core of the process, -1 none"),                               \
        I("device_idx", F_DEVICE, "", "device, -1 none")
#define LINE                                                                                       \
    I("track_id", F_TRACK, "", "row of the line in tracks"),                                       \
        S("source", F_SOURCE, "who recorded it: neuron_rt, neuron_hw, framework, ..."), PROCESS,   \
        I("worker", F_WORKER, "", "row in workers of the core or device it is of, -1 none"), CORE, \
        I("pcore_idx", F_PCORE, "", "physical core, -1 none"),                                     \
        I("thread_id", F_TID, "", "thread, -1 none")

static const mrd_column events[] = {
    I("row_id", F_ROW, "", "number of the event, in order of time"),
    TIMES,
    I("dur_ns", F_DUR, "ns", "length; 0 for instants, -1 when the end was never seen"),
    S("kind", F_KIND, "span or instant"),
    S("name", F_NAME, "what happened"),
    S("category", F_CATEGORY, "the source's category"),
    S("activity", F_ACTIVITY,
      "what it is to its worker: compute, collective, barrier, copy, host; step; '' nothing that "
      "the "
      "report counts"),
    LINE,
    S("track", F_TRACK_NAME, "name of the line"),
    I("id", F_ID, "", "the source's own id, 0 none; 64 bits, signed"),
    I("no_start", F_NO_START, "", "1: only its end was seen"),
    I("simulated", F_SIMULATED, "", "1: of simulated hardware"),
#define MRD_ARG_COLUMN(ident, spelling, column, unit, meaning)                                     \
    OI(column, F_ARG_FIRST + MRD_KEY_##ident, unit, meaning ", NULL when not given"),
#define MRD_ARG_KEY(...)
#define MRD_ARG_ALSO(...)
#include "trace/model/arg_keys.def"
#undef MRD_ARG_COLUMN
#undef MRD_ARG_KEY
#undef MRD_ARG_ALSO
    T("args", F_ARGS, "all other arguments, a JSON object, '' none"),
    SESSION,
};

static const mrd_column counters[] = {
    TIMES,
    S("name", F_TRACK_NAME, "counter"),
    S("unit", F_UNIT, "ns, count, bytes, percent or as the source says"),
    D("value", F_VALUE, "", "sample"),
    I("value_int", F_VALUE_INT, "",
      "the sample exactly, where is_int is 1; 2^64 less, where it is 2"),
    I("is_int", F_IS_INT, "", "1: the source counts in integers; 2: so, and it is above 2^63 - 1"),
    LINE,
    SESSION,
};

static const mrd_column flows[] = {
    I("row_id", F_ROW, "", "event in events"),
    I("flow_id", F_FLOW_ID, "", "arrow; 64 bits, signed"),
    S("direction", F_FLOW_DIR, "start, step or end"),
    SESSION,
};

static const mrd_column losses[] = {
    TIMES,
    I("dur_ns", F_DUR, "ns", "events were lost between ts_ns and ts_ns + dur_ns"),
    I("lost", F_LOST, "events", "how many"),
    S("cause", F_NAME, "why"),
    LINE,
    SESSION,
};

static const mrd_column steps[] = {
    I("step", F_STEP, "", "number in the step's name, -1 none"),
    TIMES,
    I("dur_ns", F_DUR, "ns", "length"),
    S("name", F_NAME, "name of the step"),
    I("counts", F_STEP_COUNTS, "",
      "1: it begins inside no other of its process that counts; 0: it does, or has no length"),
    PROCESS,
    SESSION,
};

static const mrd_column collectives[] = {
    I("collective_id", F_COLLECTIVE, "",
      "one collective: its rows are the parts of those who took part"),
    I("group_id", F_GROUP, "", "group in collective_groups"),
    S("name", F_NAME, "operation, as its first part is named"),
    I("size", F_SIZE, "", "bytes or elements, -1 unknown"),
    I("parts", F_PARTS, "", "parts that were found"),
    I("pos", F_POS, "", "order of begins: 0 is the first, parts - 1 the last"),
    TIMES,
    I("end_ns", F_END, "ns", "end of this part"),
    I("mapping_ns", F_MAPPING, "ns",
      "how far the runtime's mapping of this core's clock may be off; 0 for host clocks, -1: "
      "bound_ns includes it"),
    I("suspect", F_SUSPECT, "", "1: the clock was contradicted, nothing is proven by it"),
    I("node", F_NODE, "", "equal for those who share a host clock"),
    I("worker", F_WORKER, "", "row in workers"),
    PROCESS,
    CORE,
    SESSION,
};

static const mrd_column collective_groups[] = {
    I("group_id", F_GROUP, "", "group"),
    I("members", F_MEMBERS, "",
      "as it says itself, or all ranks of the job when nothing says whose it is; 0 unknown, -1 "
      "unknown, and the profile lacks ranks of the job"),
    I("takers", F_TAKERS, "", "cores that took part in any of its collectives"),
    I("contradicted", F_CONTRADICTED, "",
      "1: a check contradicted a clock when its collectives were written already: nothing is "
      "proven "
      "between nodes"),
    SESSION,
};

static const mrd_column workers[] = {
    I("worker", F_WORKER, "", "number of the core or device; workers are ordered by rank"),
    PROCESS,
    CORE,
    I("worker_gid", F_WORKER_GID, "", "as the source counts workers, -1 unknown"),
    I("first_ns", F_FIRST, "ns", "begin of its first device span; 0 as last_ns is without any"),
    I("last_ns", F_LAST, "ns", "end of its last device span"),
    SESSION,
};

static const mrd_column processes[] = {
    PROCESS,
    I("container_pid", F_CONTAINER_PID, "", "its own view of its number, -1 unknown"),
    S("name", F_NAME, "command"),
    S("job", F_JOB, "job"),
    S("pod", F_POD, "pod"),
    S("labels", F_LABELS, "labels"),
    I("world_size", F_WORLD, "", "ranks of the job, -1 unknown"),
    I("worker_gid", F_WORKER_GID, "", "-1 unknown"),
    I("is_node", F_IS_NODE, "", "1: stands for the node itself"),
    I("simulated", F_SIMULATED, "", "1: simulated hardware"),
    SESSION,
};

static const mrd_column tracks[] = {
    LINE,
    S("name", F_TRACK_NAME, "name of the line"),
    S("kind", F_TRACK_KIND, "spans or counter"),
    S("unit", F_UNIT, "of a counter"),
    I("worker_gid", F_WORKER_GID, "", "-1 unknown"),
    SESSION,
};

static const mrd_column models[] = {
    S("model", F_MODEL_KEY, "model of a device profile, '' for files"),
    S("name", F_NAME, "name of the device profile, or kind of the file"),
    S("instance_id", F_INSTANCE, "node"),
    I("process_id", F_PID, "", "-1 unknown"),
    I("nc_idx", F_NC, "", "core, -1 unknown"),
    I("profile_session", F_MODEL_SESSION, "", "session of the vendor's capture, -1 none"),
    I("total_time_ns", F_TOTAL_NS, "ns", "as the device profile says, 0 unknown"),
    S("path", F_PATH, "file (NEFF, NTFF, ...), '' for a device profile"),
    T("sha256", F_SHA256, "of the file"),
    I("size_bytes", F_BYTES, "bytes", "of the file"),
    SESSION,
};

static const mrd_column clocks[] = {
    I("clock_id", F_CLOCK, "", "number"),
    S("name", F_NAME, "clock"),
    S("instance_id", F_INSTANCE, "node"),
    S("quality", F_QUALITY, "aligned, unaligned, suspect, ..."),
    S("method", F_METHOD, "how it was related to the session"),
    I("estimate_ns", F_ESTIMATE, "ns", "session minus local time, in the middle"),
    I("bound_ns", F_BOUND, "ns", "largest error over the recording, -1 unknown"),
    I("noise_ns", F_NOISE, "ns", "deviation, -1 unknown"),
    I("epochs", F_EPOCHS, "", "segments that were fitted"),
    I("violations", F_VIOLATIONS, "", "checks that contradicted the bound"),
    SESSION,
};

static const mrd_column inputs[] = {
    S("path", F_PATH, "input"),
    S("format", F_NAME, "kind"),
    S("state", F_STATE, "ok, incomplete, failed, skipped"),
    S("error", F_ERROR, "what is wrong with it, '' nothing"),
    I("size_bytes", F_BYTES, "bytes", "read"),
    I("records", F_RECORDS, "", "events it holds = events + dropped"),
    I("events", F_EVENTS, "", "taken"),
    I("unfinished", F_UNFINISHED, "", "spans without an end"),
    I("no_start", F_NO_START, "", "ends without a start"),
    I("dropped", F_DROPPED, "", "could not become an event"),
    I("lost", F_LOST, "events", "as the source itself says"),
    SESSION,
};

static const mrd_column facts[] = {
    T("key", F_KEY, "what; 'note' for messages"),
    T("value", F_TEXT, "value"),
    SESSION,
};

#define PART(name, part) I(name, F_PART_FIRST + (part), "ns", "of its time")

static const mrd_column verdicts[] = {
    I("worker", F_WORKER, "", "row in workers"),
    PROCESS,
    CORE,
    I("first_ns", F_FIRST, "ns", "its window: begin"),
    I("last_ns", F_LAST, "ns", "end"),
    PART("compute_ns", 0),
    PART("both_ns", 1),
    PART("exposed_ns", 2),
    PART("copy_ns", 3),
    PART("waiting_ns", 4),
    PART("host_ns", 5),
    PART("idle_ns", 6),
    PART("not_recorded_ns", 7),
    I("took_part", F_TOOK_PART, "", "collectives with two parts or more"),
    I("last_n", F_LAST_N, "", "of these, it was the last to begin"),
    I("proven_n", F_PROVEN_N, "", "of these, proven by the bounds of the clocks"),
    I("alone_ns", F_ALONE_NS, "ns", "behind the last but one, summed"),
    I("alone_wait_ns", F_ALONE_WAIT_NS, "ns", "that times those who waited"),
    I("caused_ns", F_CAUSED_NS, "ns", "all waits for it"),
    I("proven_ns", F_PROVEN_NS, "ns", "of these, where it was proven"),
    I("wait_ns", F_WAIT_NS, "ns", "its own waits for others"),
    I("lost", F_LOST, "events", "lost of it"),
    S("verdict", F_VERDICT,
      "late: the others wait for it; unproven: likely, the clocks cannot prove it; sometimes: it "
      "was late, but not steadily; absent: it did not come to the last collective; stands still: "
      "nothing ended any more; none"),
    D("share", F_SHARE, "", "of all waits caused by it, 0 to 1"),
    D("impact", F_IMPACT, "", "waits that its own work alone caused over all windows"),
    SESSION,
};

#define TABLE(name, kind, sorted, what)                                                            \
    {                                                                                              \
#name, kind, name, MRD_COUNT(name), sorted, what                                           \
    }

static const mrd_table_def meridian[] = {
    TABLE(events, MRD_ROWS_EVENTS, 1, "spans and instants"),
    TABLE(counters, MRD_ROWS_COUNTERS, 0, "samples of counters"),
    TABLE(flows, MRD_ROWS_FLOWS, 0, "points of arrows between events"),
    TABLE(losses, MRD_ROWS_LOSSES, 0, "what was lost, where, and why"),
    TABLE(steps, MRD_ROWS_STEPS, 1, "steps of processes"),
    TABLE(collectives, MRD_ROWS_PARTS, -1, "parts of collectives: who came when"),
    TABLE(collective_groups, MRD_ROWS_GROUPS, 0, "groups of collectives"),
    TABLE(workers, MRD_ROWS_WORKERS, 0, "cores and devices"),
    TABLE(processes, MRD_ROWS_PROCESSES, 0, "processes"),
    TABLE(tracks, MRD_ROWS_TRACKS, 0, "lines that events are on"),
    TABLE(models, MRD_ROWS_MODELS, -1, "device profiles and files of models"),
    TABLE(clocks, MRD_ROWS_CLOCKS, 0, "clocks and how far they can be trusted"),
    TABLE(verdicts, MRD_ROWS_VERDICTS, 0,
          "the report: where each worker's time went, who was late"),
    TABLE(inputs, MRD_ROWS_INPUTS, -1, "what was read"),
    TABLE(facts, MRD_ROWS_FACTS, -1, "facts and notes"),
};

const mrd_dialect mrd_dialect_meridian = { .name = "meridian",
                                           .version = "3",
                                           .tables = meridian,
                                           .n = MRD_COUNT(meridian),
                                           .promote = true };

/* ---- The vendor's tables, schema 7.4.0 ---- */

static const mrd_column SystemProfileEvents[] = {
    I("id", F_ROW, "", "Row identifier"),
    S("name", F_NAME, "Event name"),
    I("start_ts", F_TS, "nanoseconds", "Start time"),
    I("end_ts", F_END, "nanoseconds", "End time"),
    I("duration_ns", F_DUR, "nanoseconds", "Duration"),
    S("trace_event_source", F_VENDOR_SOURCE, "Source of the event"),
    S("instance_id", F_INSTANCE, "Instance"),
    I("process_id", F_PID, "", "Process"),
    I("thread_id", F_TID, "", "Thread"),
    OI("nc_idx", F_LNC, "", "Logical core, relative to the process"),
    OI("pcore_idx", F_PCORE, "", "Physical core within the device"),
    OI("worker_gid", F_WORKER_GID, "", "Worker"),
    { "flow_id", MRD_COL_FLOWS, F_FLOWS, true, "", "Flows the event takes part in" },
    OS("framework_stream_id", F_NONE, "Stream of the framework"),
    OT("extra_attributes_json", F_ARGS, "Further attributes, a JSON object"),
    OS("source", F_SOURCE, "Meridian's: as trace_event_source, also nrt_api, annotation, ..."),
};

static const mrd_column SystemProfileMetadata[] = {
    T("first_ts", F_FIRST_TEXT, "First time, UTC"),
    T("last_ts", F_LAST_TEXT, "Last time, UTC"),
    T("first_ts_ns", F_FIRST_NS_TEXT, "First time, ns"),
    T("last_ts_ns", F_LAST_NS_TEXT, "Last time, ns"),
    I("ntff_version", F_VERSION, "", "Version of the device profiles"),
    I("hbm_capacity_bytes", F_HBM, "bytes", "Capacity of one core"),
};

#define HBM(name) I(#name "_bytes", F_HBM_FIRST + MRD_HBM_##name, "bytes", "Usage"),
static const mrd_column SystemProfileHbmUsage[] = {
    I("timestamp", F_TS, "nanoseconds", "Time"),
    I("total_bytes", F_HBM_TOTAL, "bytes", "Usage"),
    MRD_HBM_COLUMNS(HBM) I("device_idx", F_DEVICE, "", "Device"),
    I("hbm_idx", F_HBM_INDEX, "", "HBM of the device"),
    S("instance_id", F_INSTANCE, "Instance"),
};

static const mrd_column CpuUsage[] = {
    I("timestamp", F_TS, "nanoseconds", "Time"),
    F("util_percent", F_VALUE, "percent", "Mean use"),
    S("cpu_id", F_CPU_ID, "CPU number, or average"),
    S("instance_id", F_INSTANCE, "Instance"),
    OS("ultraserver_id", F_NONE, "UltraServer"),
    OI("ultraserver_instance_index", F_NONE, "", "Index of the instance in it"),
};

static const mrd_column HostMemUsage[] = {
    I("timestamp", F_TS, "nanoseconds", "Time"),
    I("used_bytes", F_USED_BYTES, "bytes", "Memory in use"),
    F("used_percent", F_USED_PERCENT, "percent", "Memory in use"),
    S("instance_id", F_INSTANCE, "Instance"),
    OS("ultraserver_id", F_NONE, "UltraServer"),
    OI("ultraserver_instance_index", F_NONE, "", "Index of the instance in it"),
};

static const mrd_column DeviceProfileList[] = {
    S("device_profile_name", F_NAME, "Device profile"),
    S("instance_id", F_INSTANCE, "Instance"),
    I("process_id", F_PID, "", "Process"),
    I("nc_id", F_NC, "", "Core"),
    OI("session_id", F_MODEL_SESSION, "", "Session, in session mode"),
    OI("model_id", F_ID, "", "Model, in model mode"),
};

static const mrd_column SchemaFields[] = {
    T("table_name", F_SCHEMA_TABLE, "Table"),
    T("table_description", F_SCHEMA_TABLE_WHAT, "What it holds"),
    T("field_name", F_SCHEMA_FIELD, "Field"),
    T("field_description", F_SCHEMA_FIELD_WHAT, "What it means"),
    T("field_type", F_SCHEMA_TYPE, "Type"),
    { "field_required", MRD_COL_BOOL, F_SCHEMA_REQUIRED, false, "", "Always there" },
    OT("field_example", F_SCHEMA_EXAMPLE, "Example"),
    OT("field_format", F_SCHEMA_FORMAT, "Format of the type"),
    OT("field_unit", F_SCHEMA_UNIT, "Unit"),
    OT("field_enum_values", F_SCHEMA_VALUES, "Allowed values"),
    { "field_minimum", MRD_COL_FLOAT, F_SCHEMA_LEAST, true, "", "Least value" },
    { "field_maximum", MRD_COL_FLOAT, F_SCHEMA_MOST, true, "", "Greatest value" },
};

static const mrd_column Warning[] = {
    T("message", F_MESSAGE, "Message"),
    T("category", F_TEXT, "Category"),
};

static const mrd_column Flow[] = {
    I("in_id", F_NONE, "", "From"),
    I("out_id", F_NONE, "", "To"),
    S("in_table", F_NONE, "Table of the first"),
    S("out_table", F_NONE, "Table of the second"),
    OS("dependency_type", F_NONE, "Kind"),
    OI("gap_time", F_NONE, "nanoseconds", "Time between"),
};

static const mrd_table_def explorer[] = {
    TABLE(SystemProfileEvents, MRD_ROWS_EVENTS, 2, "Events of the system profile"),
    TABLE(SystemProfileMetadata, MRD_ROWS_METADATA, -1, "Facts about the system profile"),
    TABLE(SystemProfileHbmUsage, MRD_ROWS_HBM, 0, "Use of device memory over time"),
    TABLE(CpuUsage, MRD_ROWS_CPU, 0, "Use of host CPUs over time"),
    TABLE(HostMemUsage, MRD_ROWS_MEMORY, 0, "Use of host memory over time"),
    TABLE(DeviceProfileList, MRD_ROWS_DEVICE_PROFILES, -1, "Device profiles of the session"),
    TABLE(SchemaFields, MRD_ROWS_SCHEMA, -1, "Tables and fields of this schema"),
    TABLE(Warning, MRD_ROWS_WARNINGS, -1, "What is missing or doubtful"),
    TABLE(Flow, MRD_ROWS_NONE, -1, "Edges of the device graph"),
};

const mrd_dialect mrd_dialect_explorer = {
    .name = "explorer", .version = "7.4.0", .tables = explorer, .n = MRD_COUNT(explorer)
};
