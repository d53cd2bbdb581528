/*
 * cli/mcp/mcp.h - the tools of `meridian mcp`, which programs that use a language model can call
 *
 * Each tool is a command of `meridian` that only reads, for example list_jobs is `meridian jobs
 * --json`. So a program gets the same answers as a person. The table is in mcp_tools.c.
 *
 * The text of an answer has at most MRD_MCP_TEXT bytes, about 4,000 tokens. A longer answer is cut
 * at the end of a line. Its last line then says how to get the rest.
 *
 * Threads: one. The command runs in a child process, so it cannot disturb the caller.
 */
#ifndef MRD_CLI_MCP_MCP_H
#define MRD_CLI_MCP_MCP_H

#include "base/conf/json.h"

#define MRD_MCP_TEXT  10000u /* bytes of an answer */
#define MRD_MCP_NOTES 2000u  /* bytes of the messages that are added to an answer */

/* Returns the list of tools as tools/list describes them: name, description and schema of the
 * arguments. The caller frees it. NULL if out of memory. */
mrd_json *mrd_mcp_tools(void);
/*
 * Calls a tool with the arguments of the JSON object `arguments` (may be NULL). Appends the answer
 * to *ret_text. *ret_failed is true if the command failed, and the answer says why. `dir` is the
 * directory for profiles that a tool fetches. Errors: NOTFOUND (no such tool), INVALID (wrong
 * arguments), IO, NOMEM; *why then has the reason.
 */
mrd_err mrd_mcp_call(const char *name, const mrd_json *arguments, const char *dir,
                     mrd_buf *ret_text, bool *ret_failed, mrd_why *why);

#endif
