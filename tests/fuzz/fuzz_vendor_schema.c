/* A dump of the vendor's schema: whatever comes, it is refused with a reason, or its tables have columns with names and
 * types that can be written, SchemaFields has all of them, and nothing is sorted by a column that may be NULL. */
#include <stdlib.h>

#include "trace/table/vendor_schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_table(const mrd_table_def *t, const mrd_dialect *d)
{
    if (t->n > MRD_SCHEMA_COLUMNS || (t->sorted_by >= 0 && t->columns[t->sorted_by].optional))
        abort();
    for (size_t c = 0; c < t->n; c++) {
        size_t found = 0;

        if (t->columns[c].field == F_NONE && !t->columns[c].optional)
            abort();
        for (size_t i = 0; i < d->n_fields; i++)
            found += strcmp(d->fields[i].table, t->name) == 0 &&
                     strcmp(d->fields[i].field, t->columns[c].name) == 0;
        if (found != 1)
            abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrd_vendor_schema *schema = NULL;
    mrd_why why = { 0 };
    bool events = false;

    if (mrd_vendor_schema_parse((mrd_str){ (const char *) data, size }, "dump", 13, &schema,
                                &why) != MRD_OK) {
        if (why.text[0] == '\0')
            abort();
        return 0;
    }
    for (size_t i = 0; i < mrd_vendor_schema_dialect(schema)->n; i++) {
        const mrd_table_def *t = &mrd_vendor_schema_dialect(schema)->tables[i];

        events = events || t->rows == MRD_ROWS_EVENTS;
        check_table(t, mrd_vendor_schema_dialect(schema));
    }
    if (!events)
        abort();
    mrd_vendor_schema_free(schema);
    return 0;
}
