import "./theme.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { applyTheme } from "./lib/state/theme.svelte";
import { chooseLanguage } from "./texts/language";

applyTheme();
void chooseLanguage().then(() => mount(App, { target: document.getElementById("app")! }));
