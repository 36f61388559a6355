// Trades the token for a cookie that no script can read. A token behind the # of the address never
// leaves the browser but in the header, and is taken out of the address at once.

const form = document.getElementById("login");
const field = document.getElementById("token");
const said = document.getElementById("said");

async function enter(token) {
  said.textContent = "";
  const reply = await fetch("/session", { headers: { authorization: `Bearer ${token}` } });
  if (reply.ok) {
    location.reload();
  } else {
    said.textContent = "This is not the token.";
    field.select();
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  enter(field.value.trim()).catch(() => { said.textContent = "The dashboard does not answer."; });
});

const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  history.replaceState(null, "", location.pathname + location.search);
  enter(given).catch(() => { said.textContent = "The dashboard does not answer."; });
} else {
  field.focus();
}
