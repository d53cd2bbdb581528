#include "hw/hw_ls.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/num.h"
#include "base/obj.h"
#include "hw/child.h"
#include "hw/hw_table.h"

#define OUTPUT_MAX (4u << 20)

void
mrd_ls_fini(mrd_ls *ls)
{
    free(ls->devices);
    *ls = (mrd_ls){ 0 };
}

static void
copy_text(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%.*s", (int) (size - 1), text == NULL ? "" : text);
}

/* A number, or text that holds one (numa_node is "1"). */
static int64_t
number(const mrd_json *object, const char *key)
{
    char scratch[64];
    mrd_str text;
    int64_t v;
    mrd_json *member = mrd_json_get(object, key);

    if (member == NULL || mrd_json_text(member, scratch, &text) != MRD_OK ||
        mrd_num_i64(text, &v) != MRD_OK)
        return MRD_NONE;
    return v;
}

static size_t
numbers(const mrd_json *array, int64_t *to, size_t max, uint64_t *left_out)
{
    size_t n = 0;

    for (size_t i = 0; array != NULL && i < mrd_json_size(array); i++) {
        char scratch[64];
        mrd_str text;
        int64_t v;

        if (mrd_json_text(mrd_json_at(array, i), scratch, &text) != MRD_OK ||
            mrd_num_i64(text, &v) != MRD_OK)
            continue;
        if (n < max)
            to[n++] = v;
        else
            ++*left_out;
    }
    return n;
}

static void
device_from(const mrd_json *o, mrd_ls_device *d, uint64_t *left_out)
{
    const mrd_json *processes = mrd_json_get(o, "neuron_processes");

    d->device = number(o, "neuron_device");
    d->numa_node = number(o, "numa_node");
    d->core_count = number(o, "nc_count");
    d->lnc = number(o, "logical_neuroncore_config");
    d->memory_bytes = number(o, "memory_size");
    copy_text(d->bdf, sizeof(d->bdf), mrd_json_str(o, "bdf", ""));
    copy_text(d->cpu_affinity, sizeof(d->cpu_affinity), mrd_json_str(o, "cpu_affinity", ""));
    d->n_links = numbers(mrd_json_get(o, "connected_to"), d->links, MRD_LS_LINKS, left_out);
    d->n_cores = numbers(mrd_json_get(o, "neuroncore_ids"), d->cores, MRD_LS_CORES, left_out);
    for (size_t i = 0; processes != NULL && i < mrd_json_size(processes); i++) {
        const mrd_json *p = mrd_json_at(processes, i);

        if (d->n_processes == MRD_LS_PROCESSES) {
            *left_out += mrd_json_size(processes) - i;
            break;
        }
        if (!mrd_json_is_object(p))
            continue;
        d->processes[d->n_processes].pid = number(p, "pid");
        copy_text(d->processes[d->n_processes].command, sizeof(d->processes[0].command),
                  mrd_json_str(p, "command", ""));
        copy_text(d->processes[d->n_processes].runtime, sizeof(d->processes[0].runtime),
                  mrd_json_str(p, "neuron_runtime_version", ""));
        d->n_processes++;
    }
}

static mrd_err
room(mrd_ls *ls, mrd_why *why)
{
    if ((ls->devices = calloc(MRD_LS_DEVICES, sizeof(*ls->devices))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "list of Neuron devices");
    return MRD_OK;
}

mrd_err
mrd_ls_parse(mrd_str text, mrd_ls *ret_ls, mrd_why *why)
{
    mrd_ls ls = { 0 };
    mrd_json *doc = NULL;
    mrd_err err = mrd_json_parse(text, "output of neuron-ls", &doc, why);

    if (err != MRD_OK)
        return err;
    if (!mrd_json_is_array(doc))
        err = mrd_why_set(why, MRD_FORMAT, 0, "output of neuron-ls is not a JSON array");
    else
        err = room(&ls, why);
    for (size_t i = 0; err == MRD_OK && i < mrd_json_size(doc); i++) {
        const mrd_json *o = mrd_json_at(doc, i);

        if (!mrd_json_is_object(o))
            continue;
        if (ls.n < MRD_LS_DEVICES)
            device_from(o, &ls.devices[ls.n++], &ls.left_out);
        else
            ls.left_out++;
    }
    mrd_json_free(doc);
    if (err != MRD_OK)
        mrd_ls_fini(&ls);
    else
        *ret_ls = ls;
    return err;
}

mrd_err
mrd_ls_run(const char *tool, mrd_dur_ns timeout, mrd_ls *ret_ls, mrd_why *why)
{
    char path[1024];
    const char *argv[] = { path, "-j", NULL };
    mrd_buf out = { 0 };
    mrd_err err;

    if (!mrd_child_find(tool, "neuron-ls", path))
        return mrd_why_set(why, MRD_NOTFOUND, 0, "no neuron-ls on PATH or in /opt/aws/neuron/bin");
    if ((err = mrd_child_run(argv, timeout, OUTPUT_MAX, &out, why)) == MRD_OK)
        err = mrd_ls_parse((mrd_str){ (char *) out.p, out.len }, ret_ls, why);
    mrd_buf_fini(&out);
    return err;
}

static void
file_text(const char *root, const char *rel, mrd_buf *text, char *to, size_t size)
{
    mrd_str rest;

    if (!mrd_hw_read(root, rel, text))
        return;
    rest = (mrd_str){ (char *) text->p, text->len };
    rest = mrd_hw_word(&rest);
    snprintf(to, size, "%.*s", (int) (rest.len < size ? rest.len : size - 1), rest.p);
}

static void
device_from_sysfs(const char *root, const char *name, mrd_buf *text, mrd_ls_device *d,
                  uint64_t *left_out)
{
    char rel[512], number_text[32] = "";
    mrd_str rest;

    d->numa_node = d->lnc = d->memory_bytes = d->core_count = MRD_NONE;
    snprintf(rel, sizeof(rel), "%.64s/core_count", name);
    file_text(root, rel, text, number_text, sizeof(number_text));
    (void) mrd_num_i64(mrd_str_of(number_text), &d->core_count);
    snprintf(rel, sizeof(rel), "%.64s/info/architecture/device_name", name);
    file_text(root, rel, text, d->type, sizeof(d->type));
    if (d->type[0] == '\0') { /* the older guide's name of the file */
        snprintf(rel, sizeof(rel), "%.64s/info/architecture/device_type", name);
        file_text(root, rel, text, d->type, sizeof(d->type));
    }
    snprintf(rel, sizeof(rel), "%.64s/info/architecture/instance_type", name);
    file_text(root, rel, text, d->instance_type, sizeof(d->instance_type));
    snprintf(rel, sizeof(rel), "%.64s/connected_devices", name);
    if (!mrd_hw_read(root, rel, text))
        return;
    rest = (mrd_str){ (char *) text->p, text->len }; /* "12, 3, 4, 1" */
    for (mrd_str word; (word = mrd_hw_word(&rest)).len > 0;) {
        int64_t link;

        if (word.p[word.len - 1] == ',')
            word.len--;
        if (!mrd_hw_int(word, &link))
            continue;
        if (d->n_links < MRD_LS_LINKS)
            d->links[d->n_links++] = link;
        else
            ++*left_out;
    }
}

mrd_err
mrd_ls_sysfs(const char *sys_root, mrd_ls *ret_ls, mrd_why *why)
{
    char root[1024];
    struct dirent **entries = NULL;
    mrd_buf text = { 0 };
    mrd_ls ls = { 0 };
    mrd_err err;
    int n;

    snprintf(root, sizeof(root), "%s/devices/virtual/neuron_device",
             sys_root == NULL ? "/sys" : sys_root);
    if ((n = scandir(root, &entries, NULL, versionsort)) < 0)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "no Neuron driver: %s", root);
    err = room(&ls, why);
    for (int i = 0; i < n; i++) {
        int64_t device;

        if (err == MRD_OK && strncmp(entries[i]->d_name, "neuron", 6) == 0 &&
            mrd_num_i64(mrd_str_of(entries[i]->d_name + 6), &device) == MRD_OK) {
            if (ls.n < MRD_LS_DEVICES) {
                ls.devices[ls.n].device = device;
                device_from_sysfs(root, entries[i]->d_name, &text, &ls.devices[ls.n++],
                                  &ls.left_out);
            } else {
                ls.left_out++;
            }
        }
        free(entries[i]);
    }
    free(entries);
    mrd_buf_fini(&text);
    if (err == MRD_OK)
        *ret_ls = ls;
    return err;
}
