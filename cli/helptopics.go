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
next}}. A warning there is {"warning": TEXT}, and what is being decided
{"deciding": {…}}; on a terminal there are lines for a person besides. -o jsonl
prints a line for each item of a list. Fields may be added; these stay. Times are
RFC 3339 in UTC.

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
  state          queued, running, waiting, success, error, failed_safe or
                 skipped
  arguments      what it was called with, whole
  sent           what was sent instead, where a person or a flow has changed
                 them
  allowed_by     because of what nobody was asked: the rule "allow memory:*", or
                 "approval 7f3a91c2, for all calls of the tool"
  output, error  what came back
  started_at, ended_at, execution_time_ms
  predicted      true: it is expected, and nothing has called it yet

An approval (approvals ls, approvals show, pending):

  checkpoint_id, workflow_id, workflow_name, workspace
  approval_type, tool, subject, risk, description, digest
  context        what is asked; context.arguments is what will be sent
  call_ids       the calls of the run that wait for it
  place          {line, column}: where the script makes the call
  computed       the arguments that the script computes there
  side           where its run is: client (this machine), or server
  state, created_at, expires_at, requested_by, decided_by
  human          true: a person decides it, at a terminal or with the PIN
  unchosen       true: an agent may approve it only because nobody has chosen
                 who decides (approvals.decider; pml init asks)

A row of the audit log (audit ls, audit export):

  seq, at, by, tool, approval_type, checkpoint_id, workflow_id, workflow_name,
  workspace, digest, reason, asked
  arguments      what the call was asked with (--args)
  sent           what was approved in place of arguments (--args)
  side           whose log it is in: client (this machine), or server
  outcome        what is stored, and covered by the hash
  shown          the outcome as the table has it, and as --outcome takes it
  aborted        true: this no aborted the run; --outcome aborted finds it too
  remember       run, session or rule: for how long a yes counts

The outcome is approved, denied, expired, superseded or refused. What was done with
a whole run or with all calls (pml abort, halt, resume) has a row without a
checkpoint_id, and says it in its reason: there shown is aborted, halted or resumed,
and outcome denied or approved. With remember "rule" the reason begins with the rule,
as in "allow files:write_file".

The server (server status):

  running        whether one runs
  server         what it says of itself: version, started_at, socket, url, store
  server.pid     its process; 0 of a server on another machine
  server.running, server.waiting, server.approvals
                 how many runs run and wait, and how many approvals wait
  server.readers
                 the programs that read its events now, such as pml tui

"pml help exit-codes" has the codes of errors, and "pml config schema" is the JSON
Schema of .pml.json.`

// conditionsText is the help about the conditions of rules.
const conditionsText = `A rule of permissions may have a condition on the call: an expression that is true
or false. pml permissions allow, ask and deny take it with --where; in .pml.json it
is the where of {"tool": "fs:write_file", "where": "…"}. Examples:

  under(args.path, 'docs')                      files below docs
  size(args.content) > 5000                     long texts
  args.team in ['ENG', 'OPS'] && !has(args.assignee)
                                                two teams, nobody assigned
  annotations.destructive || args.priority > 2  what destroys, or is urgent

The rule matches the calls of its pattern for which the condition is true. What
cannot be evaluated, such as a field that is not there, is an error: then a rule
that denies or asks matches, and one that allows does not. The where of a flow's
match is written the same way.

Variables:

  args           the arguments that are sent: args.path, args.list[0],
                 args["a.b"]
  tool, server   the names of the tool and of its server
  annotations    what the server says of the tool: annotations.read_only,
                 .destructive, .idempotent, .open_world
  client         who calls: the agent's host for a call that it makes itself,
                 cli for pml tools call, agent:ID for what the scripts of an
                 agent call, run:ID for what another program calls
  owner          whose the run is
  workspace      the folder
  run            run.name, run.kind, run.depth
  #              the element, inside of all, any, none, one and count

Functions:

  has(args.x)    whether the field is there; args?.x is null where it is not
  size(x)        the characters of a text, the elements of a list or an object;
                 a list has no .length
  under(path, folder)
                 whether a path lies in a folder of the workspace. Dots are
                 resolved, links are not followed; a path with ~, $, % or ://
                 is an error
  keys(x)        the names of the fields of an object
  all, any, none, one, count
                 over a list: all(keys(args), # in ['path', 'content'])
  lower, upper, trim
                 of a text
  type(x)        "text", "number" …: what kind of value it is

Operators:

  == != < <= > >=    of values of one kind: a text and a number are an error
  && || ! and or not
  in, not in         of a list or the fields of an object
  contains, startsWith, endsWith
                     of texts
  matches            a regular expression (RE2) that stands there as a text
  + - * / %, a ? b : c
  ??                 what stands behind it where there is nothing before it

Texts stand in ' or ". The shell takes one of them: write the whole condition in the
other. "pml permissions test" tries a rule on past calls.`
