package cli

// programsText is the help about what pml runs.
const programsText = `pml runs scripts and graphs of tasks (DAGs). "pml plan FILE" shows the calls and
layers of either and runs nothing; "pml tools ls" lists what can be called, and
"pml tools show SERVER:TOOL" its arguments.

A script is TypeScript or JavaScript. mcp.SERVER.TOOL(arguments) is all there is
to the outside; await, loops and try/catch mean what they mean, and a script waits
with "await new Promise((done) => setTimeout(done, 1000))". A name that is no word
of JavaScript is quoted: mcp.every["get-sum"]({ a: 1, b: 2 }). A call gives the
structured content of the tool's answer; without one its text, read as JSON where it
is some and a string where not; of several contents or other kinds a list of them,
{type, …}. A call that fails throws. "input" is what --input gave, and what the
script returns is the result:

  const files = await Promise.all(["a.txt", "b.txt"].map((path) =>
    mcp.workspace.read_file({ path })));
  return files.length;

A DAG is JSON or YAML. What a task needs is what it names: "$list" is the result
of the task list, "${list.entries[0].name}" a part of it inside a text:

  tasks:
    - id: list
      tool: workspace:list_directory
      arguments: {path: .}
    - id: note
      tool: workspace:write_file
      arguments: {path: notes.txt, content: "first: ${list.entries[0].name}"}

The fields of a task:

  id            a name, unique in the DAG
  tool          SERVER:TOOL
  arguments     what the tool is called with
  depends_on    [ids] that must be done before, beside those that are named
  code          what computes in place of a tool, with type: code; what a task
                gave that it depends on is deps.ID.output. Unlike a script it
                cannot call tools (mcp) or wait (setTimeout)
  timeout_ms    how long a call may take
  retry         {max_attempts: 3, backoff_ms: 500}
  safe_to_fail  true: the run goes on when it fails
  side_effects  after a crash: true asks before the call is made again, false
                makes it again
  when          an expression; where it is false the task is left out

Beside tasks a DAG may have input, which the scripts of its tasks see as "input",
and intent, a name for the run.`

// jsonText is the help about output for programs.
const jsonText = `With --json pml prints one JSON document on stdout, also of a run that failed.
Where there is nothing to print, stderr has {"error": {code, message, exit,
next}}; messages and progress there are JSON as well. -o jsonl prints a line for
each item of a list. Fields may be added; these stay. Times are RFC 3339 in UTC.

A list is {"items": […], "next": "CURSOR"}; --cursor goes on after it.

What execute, continue, approve, deny, retry and tools call print:

  status         success, complete, approval_required, layer_complete, running,
                 aborted, error …
  workflow_id    the run
  result         what the program returned
  pending        what waits: approvals, as below
  failures       the calls that failed
  warnings       what the plan of a DAG warns of, where it was just begun
  error, error_code, next
                 what went wrong, its code, and the command to run next

Where something is left to do, next is the first command that a program may run,
and commands has all of them. at_terminal has those that pml refuses to a program:
where people decide (approvals.decider is human) a decision is made on a terminal,
or with the PIN, and a program waits for it (continue ID --on-approval wait).

It is about a run, so it has workflow_id; its status is what the command came
to, which says more than the state of a run: approval_required and
layer_complete are both of a run whose state is waiting. The run itself has id
and state.

A run (workflows ls, workflows show):

  id, name, workspace, kind, state, intent
  created_at, updated_at, ended_at, expires_at
  total_layers, current_layer
  requested_by   {who, via, client}
  result, error, agent
  layers         of workflows show: [{index, tasks}]

The state of a run is running, waiting, interrupted, complete, failed, aborted or
expired.

A task (layers[].tasks[]), one call of a script or a task of a DAG:

  id, tool, layer_index, attempt, depends_on
  state          queued, running, waiting, success, error, failed_safe or skipped
  arguments      what it was called with, whole
  sent           what was sent instead, where a person or a flow has changed them
  output, error  what came back
  started_at, ended_at, execution_time_ms
  predicted      true: it is expected, and nothing has called it yet

An approval (approvals ls, approvals show, pending):

  checkpoint_id, workflow_id, workflow_name, workspace
  approval_type, tool, subject, risk, description, digest
  context        what is asked; context.arguments is what will be sent
  state, created_at, expires_at, requested_by, decided_by
  human          true: a person decides it, at a terminal or with the PIN

A row of the audit log (audit ls):

  seq, at, by, tool, approval_type, checkpoint_id, workflow_id, workflow_name,
  workspace, digest, reason, asked, arguments (--args)
  outcome        what is stored, and covered by the hash
  shown          the outcome as the table has it, and as --outcome takes it
  aborted        true: this no aborted the run; --outcome aborted finds it as well
  remember       run, session or rule: for how long a yes counts

The outcome is approved, denied, expired, superseded or refused. What was done with
a whole run or with all calls (pml abort, halt, resume) has a row without a
checkpoint_id, and says it in its reason: there shown is aborted, halted or resumed,
and outcome denied or approved. With remember "rule" the reason begins with the rule,
as in "allow files:write_file".

"pml help exit-codes" has the codes of errors, and "pml config schema" is the JSON
Schema of .pml.json.`
