// Blocks calls outside of some hours, on weekdays.
const { from, to, utc_offset, weekend } = context.parameters;
const now = new Date(Date.now() + utc_offset * 3600e3);
const hour = now.getUTCHours() + now.getUTCMinutes() / 60, day = now.getUTCDay();
if (hour >= from && hour < to && (weekend || day !== 0 && day !== 6)) return;
return { block: { code: "office_hours", message: `such calls are made from ${from} to ${to} o'clock (UTC${utc_offset < 0 ? "" : "+"}${utc_offset})${weekend ? "" : " on weekdays"} only` } };
