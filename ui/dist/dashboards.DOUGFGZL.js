import"./c.RNEUCEXK.js";import"./c.GYXNI4RS.js";import"./c.MOAVTL4V.js";import"./c.7KAYMKQK.js";import"./c.LRODMJYA.js";
