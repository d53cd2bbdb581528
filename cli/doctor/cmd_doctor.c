/* `meridian doctor`: checks this node, and prints problems with remedies. */
#include <errno.h>

#include "agent/daemon/sample.h"
#include "base/obj.h"
#include "cli/cli.h"
#include "cli/client/cluster.h"
#include "cli/doctor/doctor.h"
#include "trace/json/catalog_json.h"

typedef struct {
    /* must be first, because the agent's option table contains offsets into it */
    mrd_agent_options agent;
    char *env_file;
    bool json, quiet, counters;
} settings;

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Doctor" },
    { .name = "env-file",
      .type = MRD_OPT_STR,
      .offset = offsetof(settings, env_file),
      .arg = "FILE",
      .help = "settings of the agent as systemd gives them to it; default /etc/meridian/agent.env "
              "when it is there" },
    { .name = "json",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, json),
      .help = "print JSON" },
    { .name = "quiet",
      .letter = 'q',
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, quiet),
      .help = "show warnings and failures only" },
    { .name = "counters",
      .type = MRD_OPT_BOOL,
      .offset = offsetof(settings, counters),
      .help = "list the counters that this node can sample, with their units, and check nothing" },
#define HEAD(text) { .type = MRD_OPT_HEAD, .help = "The agent's settings: " text },
#define OPTION(name, letter, type, member, def, min, max, arg, env, help)                          \
    { name,                                                                                        \
      letter,                                                                                      \
      MRD_OPT_##type,                                                                              \
      offsetof(settings, agent) + offsetof(mrd_agent_options, member),                             \
      def,                                                                                         \
      min,                                                                                         \
      max,                                                                                         \
      arg,                                                                                         \
      env,                                                                                         \
      help,                                                                                        \
      NULL,                                                                                        \
      0 },
#include "agent/daemon/options.def"
#undef HEAD
#undef OPTION
};

static const struct {
    const char *name;
    void (*look)(mrd_doctor *d);
} checks[] = {
    { "identity", mrd_doctor_identity },     { "agent", mrd_doctor_process },
    { "ring-directory", mrd_doctor_rings },  { "containers", mrd_doctor_containers },
    { "limits", mrd_doctor_limits },         { "clock-source", mrd_doctor_clock },
    { "wall-clock", mrd_doctor_wall },       { "absolute-time", mrd_doctor_absolute },
    { "kernel-stamps", mrd_doctor_stamps },  { "spool", mrd_doctor_spool },
    { "tls-files", mrd_doctor_tls },         { "token", mrd_doctor_token },
    { "aggregator", mrd_doctor_aggregator }, { "metrics-port", mrd_doctor_metrics },
    { "neuron", mrd_doctor_neuron },         { "runtime-library", mrd_doctor_runtime },
};

static const char more[] =
    "Takes the options, variables and --config of meridian-agent, so that it sees what that agent "
    "would.\n"
    "Without any of these, it checks the settings of the agent that runs.\n"
    "Run it as the agent runs: the same user, the same container.\n"
    "Exit status: 0 all is fine, 1 something will not work, 3 warnings only.\n\n"
    "  sudo -u meridian meridian doctor\n"
    "  kubectl -n meridian exec daemonset/meridian-agent -- meridian doctor\n";

/* ---- Settings ---- */

/* Reads lines NAME=value from a file like systemd's EnvironmentFile and sets these variables.
 * Variables that are already set keep their value. */
static mrd_err
env_file_read(const char *path, bool must, mrd_why *why)
{
    FILE *file = fopen(path, "re");
    char line[4096];

    if (file == NULL)
        return must ? mrd_why_set(why, MRD_NOTFOUND, errno, "%s", path) : MRD_OK;
    while (fgets(line, sizeof(line), file) != NULL) {
        char *name = line + strspn(line, " \t"), *eq = strchr(name, '='), *value;
        size_t n;

        if (*name == '#' || eq == NULL)
            continue;
        *eq = '\0';
        value = eq + 1;
        n = strcspn(value, "\r\n");
        value[n] = '\0';
        if (n >= 2 && (*value == '"' || *value == '\'') && value[n - 1] == *value) {
            value[n - 1] = '\0';
            value++;
        }
        setenv(name, value, 0);
    }
    fclose(file);
    return MRD_OK;
}

/* Returns true if no argument is about the agent. Its settings are then those of the agent that
 * runs. */
static bool
takes_agent(const settings *first, int argc, char **argv)
{
    static const char *const about_output[] = { "--json", "--quiet", "-q", "--counters" };

    for (int i = 1; i < argc; i++) {
        bool known = false;

        for (size_t k = 0; k < MRD_COUNT(about_output); k++)
            known = known || strcmp(argv[i], about_output[k]) == 0;
        if (!known)
            return false;
    }
    return first->env_file == NULL;
}

/* Reads the settings in the same order as the agent: defaults, file, environment, command line. If
 * no argument is about the agent, the settings of the agent that runs are used. */
static mrd_err
settings_read(settings *set, int argc, char **argv, bool *ret_done, mrd_doctor_source *ret_source)
{
    static const char standard[] = "/etc/meridian/agent.env";
    settings first = { 0 };
    mrd_strlist words = { 0 };
    mrd_why why = { 0 };
    mrd_err err = mrd_cli_parse(&(mrd_cli_frame){ .usage = "[options]",
                                                  .more = more,
                                                  .table = table,
                                                  .rows = MRD_COUNT(table),
                                                  .settings = &first },
                                argc, argv, &words, ret_done);

    if (err == MRD_OK && !*ret_done) {
        if (words.n > 0)
            err = mrd_why_set(&why, MRD_INVALID, 0,
                              "unexpected argument '%s' (--help shows the usage)", words.v[0]);
        if (err == MRD_OK)
            err = env_file_read(first.env_file == NULL ? standard : first.env_file,
                                first.env_file != NULL, &why);
        if (err == MRD_OK)
            err = mrd_conf_defaults(table, MRD_COUNT(table), set, &why);
        if (err == MRD_OK && first.agent.config != NULL)
            err = mrd_conf_file(table, MRD_COUNT(table), set, first.agent.config, &why);
        if (err == MRD_OK && takes_agent(&first, argc, argv))
            *ret_source = mrd_doctor_take(table, MRD_COUNT(table), set);
        if (err == MRD_OK)
            err = mrd_conf_env(table, MRD_COUNT(table), set, &why);
        mrd_strlist_fini(&words);
        if (err == MRD_OK)
            err = mrd_conf_args(table, MRD_COUNT(table), set, argc, argv, false, &words, &why);
        if (err != MRD_OK)
            mrd_cli_error("doctor", &why);
    }
    mrd_strlist_fini(&words);
    mrd_conf_fini(table, MRD_COUNT(table), &first);
    return err;
}

/* ---- Printing ---- */

static void
print_text(const mrd_doctor *doctor, bool quiet)
{
    for (size_t i = 0; i < mrd_json_size(doctor->findings); i++) {
        const mrd_json *json = mrd_json_at(doctor->findings, i);
        const char *level = mrd_json_str(json, "level", ""), *fix = mrd_json_str(json, "fix", NULL);

        if (quiet && strcmp(level, "ok") == 0)
            continue;
        printf("%-8s %-16s ", level, mrd_json_str(json, "check", ""));
        mrd_cluster_say(stdout, mrd_json_str(json, "message", ""));
        if (fix != NULL)
            printf("%-25s → %s\n", "", fix);
    }
    if (!quiet)
        printf("%u fine, %u warnings, %u failed\n", doctor->counts[MRD_DOCTOR_OK],
               doctor->counts[MRD_DOCTOR_WARNING], doctor->counts[MRD_DOCTOR_FAILED]);
}

static void
print_json(const mrd_doctor *doctor)
{
    mrd_json *doc = mrd_json_new_object();

    mrd_json_set(doc, "instance_id", mrd_json_new_str(doctor->node.instance_id));
    for (size_t i = 0; i < MRD_DOCTOR_LEVELS; i++)
        mrd_json_set(doc, mrd_doctor_level_text((mrd_doctor_level) i),
                     mrd_json_new_int(doctor->counts[i]));
    mrd_json_set(doc, "findings", mrd_json_copy(doctor->findings));
    mrd_cluster_print_json(doc);
    mrd_json_free(doc);
}

static void
add_counter(void *self, const mrd_hw_counter *counter)
{
    mrd_json *json = mrd_json_new_object(), *list = self;

    mrd_json_set(json, "name", mrd_json_new_str(counter->name));
    mrd_json_set(json, "unit", mrd_json_new_str(mrd_unit_text(counter->unit)));
    mrd_json_set(json, "cumulative", mrd_json_new_bool((counter->flags & MRD_HW_CUMULATIVE) != 0));
    mrd_json_append(list, json);
}

/* Prints every counter that can be named on this node in a session's `--counters` or in
 * mrd_counters_create. */
static int
list_counters(const settings *set)
{
    mrd_hw_options options = mrd_doctor_hw(&set->agent);
    mrd_json *list = mrd_json_new_array();
    mrd_hw *hw = NULL;
    mrd_why why = { 0 };
    mrd_err err = mrd_hw_open(&options, &hw, &why);

    if (err == MRD_OK)
        mrd_hw_each(hw, add_counter, list);
    else
        mrd_cli_error("doctor", &why);
    mrd_hw_close(hw);
    if (err == MRD_OK && set->json)
        mrd_cluster_print_json(list);
    for (size_t i = 0; err == MRD_OK && !set->json && i < mrd_json_size(list); i++) {
        const mrd_json *json = mrd_json_at(list, i);

        printf("%s %s%s\n", mrd_json_str(json, "name", ""), mrd_json_str(json, "unit", ""),
               mrd_json_bool(json, "cumulative", false) ? ", grows" : "");
    }
    mrd_json_free(list);
    return err == MRD_OK ? MRD_EXIT_OK : MRD_EXIT_FAILED;
}

int
mrd_cmd_doctor(int argc, char **argv)
{
    settings set = { 0 };
    mrd_doctor doctor = { .agent = &set.agent };
    bool done = false;
    mrd_err err = settings_read(&set, argc, argv, &done, &doctor.source);

    if (err != MRD_OK || done) {
        mrd_conf_fini(table, MRD_COUNT(table), &set);
        return err != MRD_OK ? MRD_EXIT_USAGE : MRD_EXIT_OK;
    }
    if (set.counters) {
        int status = list_counters(&set);

        mrd_conf_fini(table, MRD_COUNT(table), &set);
        return status;
    }
    doctor.findings = mrd_json_new_array();
    for (size_t i = 0; i < MRD_COUNT(checks); i++) {
        doctor.check = checks[i].name;
        checks[i].look(&doctor);
    }
    if (set.json)
        print_json(&doctor);
    else
        print_text(&doctor, set.quiet);
    mrd_json_free(doctor.findings);
    mrd_conf_fini(table, MRD_COUNT(table), &set);
    return doctor.counts[MRD_DOCTOR_FAILED] > 0    ? MRD_EXIT_FAILED
           : doctor.counts[MRD_DOCTOR_WARNING] > 0 ? MRD_EXIT_INCOMPLETE
                                                   : MRD_EXIT_OK;
}
