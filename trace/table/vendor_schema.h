/*
 * trace/table/vendor_schema.h - the explorer dialect (schema.h) of another version of the vendor's schema, from its
 * dump: what `neuron-explorer view --show-profile-schema` (before SDK 2.33: `neuron-explorer --show-profile-schema`) prints.
 *
 * The dump     YAML blocks with `---` between them, also in the middle of a line as the vendor's own files
 *              have it: an OpenAPI root, whose info.version is the schema's, and one block for each table.
 * The tables   those of 7.4.0 that the dump has too, with the dump's columns, order and types. A column has
 *              values when 7.4.0 has one of that name and type; others are NULL. Columns whose type cannot
 *              be written (objects, lists of other things than text) are left out. mrd_dialect.warning names
 *              them: of each kind the first MRD_VENDOR_NAMED, and how many more. SchemaFields gets every field of every table of the dump.
 * The version  MAJOR counts changes that old readers cannot read. Which MAJORs exist is public up to
 *              MRD_VENDOR_MAJOR_LAST; another one is refused unless the caller names it.
 *
 * A dump is what somebody handed over: its size, depth, tables, columns and what is kept of it (many fields may refer
 * to one long list of values) are bounded, and a table's name, which
 * becomes a file's, has letters, digits and '_' only. Threads: a schema is read-only once loaded.
 */
#ifndef MRD_TRACE_TABLE_VENDOR_SCHEMA_H
#define MRD_TRACE_TABLE_VENDOR_SCHEMA_H

#include "base/buf.h"
#include "trace/table/schema.h"

enum {
    MRD_VENDOR_MAJOR_FIRST = 7,
    MRD_VENDOR_MAJOR_LAST = 12,
    MRD_VENDOR_BYTES = 8 << 20,
    MRD_VENDOR_KEPT = 32 << 20, /* of texts */
    MRD_VENDOR_TABLES = 1000,
    MRD_VENDOR_FIELDS = 20000,
    MRD_VENDOR_TABLE_FIELDS = 2000, /* the vendor's Summary has about 120 */
    MRD_VENDOR_NAMED = 24
};

typedef struct mrd_vendor_schema mrd_vendor_schema;

/*
 * Of a file. major: accepted though unknown; -1: none. A version in place of a file ("12.0.1") is refused with the
 * commands that make a dump; "7.4.0" gives what is built in. Errors: NOTFOUND, DENIED, IO; VERSION: the
 * MAJOR; LIMIT; UNSUPPORTED: it has no table of events; SYNTAX, DEPTH, INVALID, TYPE, UTF8, EMPTY: no
 * dump, with its line; NOMEM.
 */
mrd_err mrd_vendor_schema_read(const char *path, int64_t major, mrd_vendor_schema **ret_schema,
                               mrd_why *why);
/* Of a text; `name` is in messages. Errors: as above, but those of files. */
mrd_err mrd_vendor_schema_parse(mrd_str text, const char *name, int64_t major,
                                mrd_vendor_schema **ret_schema, mrd_why *why);
/* Borrowed until free. */
const mrd_dialect *mrd_vendor_schema_dialect(const mrd_vendor_schema *schema);
void mrd_vendor_schema_free(mrd_vendor_schema *schema); /* NULL is fine */

#endif
