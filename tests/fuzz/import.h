/* tests/fuzz/import.h - shared by the fuzz targets of importers. It has the input as a file in
 * memory, an emit function that reads every byte of an event, and the equation of the counts. */
#ifndef MRD_TESTS_FUZZ_IMPORT_H
#define MRD_TESTS_FUZZ_IMPORT_H

#include <stdlib.h>

#include "base/obj.h"
#include "trace/import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t fuzz_sum; /* uses every byte, so that the compiler does not remove the reads */

static mrd_err
fuzz_emit(mrd_import *imp, uint32_t profile, const mrd_event *ev)
{
    (void) profile;
    MRD_ASSERT(ev->track < mrd_catalog_tracks(imp->catalog));
    MRD_ASSERT(ev->kind >= MRD_SPAN && ev->kind <= MRD_LOSS);
    MRD_ASSERT(ev->dur_ns >= MRD_DUR_UNFINISHED);
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *a = &ev->args[i];

        fuzz_sum += mrd_catalog_text(imp->catalog, a->key).len;
        if (a->type == MRD_ARG_TEXT || a->type == MRD_ARG_JSON) {
            MRD_ASSERT(mrd_utf8_valid((mrd_str){ a->v.text, a->len }, NULL));
            fuzz_sum += a->len;
        }
    }
    for (uint32_t i = 0; i < ev->flow_count; i++)
        fuzz_sum += ev->flows[i].id;
    return MRD_OK;
}

static mrd_err
fuzz_shift(mrd_import *imp, uint32_t profile, int64_t delta_ns)
{
    (void) imp;
    (void) profile;
    fuzz_sum += (uint64_t) delta_ns;
    return MRD_OK;
}

/* Imports the fuzzer's data. The last byte sets how many bytes the importer gets per read, so that
 * tokens of the format are split between reads. */
static int
fuzz_import(const mrd_import_ops *ops, const uint8_t *data, size_t size)
{
    mrd_input blank = { 0 };
    mrd_import imp = { .identity = MRD_IDENTITY_UNKNOWN, .emit = fuzz_emit, .shift = fuzz_shift };
    const mrd_input *input;
    mrd_why why = { 0 };
    mrd_err err;

    MRD_ASSERT(mrd_in_memory((mrd_bytes){ data, size }, "fuzz", &imp.in, NULL) == MRD_OK ||
               size > 0);
    if (imp.in == NULL)
        return 0;
    if (size > 0 && data[size - 1] < 32)
        mrd_in_set_chunk(imp.in, data[size - 1] + 1u);
    imp.catalog = mrd_catalog_new();
    imp.input = mrd_catalog_add_input(imp.catalog, &blank);
    err = ops->run(&imp, &why);
    MRD_ASSERT(err == MRD_OK || why.text[0] != '\0'); /* every error says why */
    input = mrd_import_input(&imp);
    MRD_ASSERT(input->records == input->events + input->dropped);
    mrd_catalog_free(imp.catalog);
    mrd_in_close(imp.in);
    return 0;
}

#endif
