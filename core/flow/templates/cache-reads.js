// Before the call: gives the result of the same call within a time. Behind it: keeps it.
return { effects: [{ tool: "cache", arguments: { seconds: context.parameters.seconds } }] };
